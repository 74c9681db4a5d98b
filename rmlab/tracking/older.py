"""What the UI shows, for the experiments of an earlier version: the views of this one, headline metrics, the level as a number."""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from rmlab.tracking.config import LEVEL_NUMBER
from rmlab.tracking.headline import HEADLINE, headline, rounded
from rmlab.tracking.run import RunLogger
from rmlab.tracking.run_index import search
from rmlab.tracking.store import SEARCHED, Store
from rmlab.tracking.views import is_ours, view_tags

if TYPE_CHECKING:
    from mlflow.entities import Experiment, Run


def bring_up(store: Store, descriptions: Mapping[str, str]) -> int:
    """Makes a store's experiments such as this version makes them, and returns how many runs were completed.

    descriptions: of experiments by name, for those that have none. A view that somebody saved stays, and nothing that a run says
    is changed. An experiment whose views are of this version is not looked at again.
    """
    completed = 0
    for experiment in store.call(lambda: store.client.search_experiments(max_results=1000)):
        if experiment.name in descriptions:
            store.describe(experiment.name, descriptions[experiment.name], _searched(experiment))
        views = view_tags(_searched(experiment))
        old = {
            key: tag for key, tag in views.items() if is_ours(experiment.tags.get(key)) and experiment.tags[key] != tag
        }
        if not old:
            continue
        completed += sum(_complete(store, run) for run in search(store, [experiment.name])[0])
        for key, tag in old.items():  # last: who is interrupted begins again
            store.call(partial(store.client.set_experiment_tag, experiment.experiment_id, key, tag))
    return completed


def _searched(experiment: "Experiment") -> list[str]:
    return str(experiment.tags.get(SEARCHED, "")).split()


def _complete(store: Store, run: "Run") -> bool:
    """Adds what a run that ended lacks; whether it lacked something."""
    if run.info.end_time is None:
        return False
    lacking = headline(run.data.metrics)
    logger = RunLogger(store, run.info.run_id, run.info.experiment_id)
    for name in run.data.metrics:
        if HEADLINE.get(name) in lacking:
            for row in store.call(partial(store.client.get_metric_history, run.info.run_id, name)):
                logger.history.append((HEADLINE[name], rounded(row.value), row.step, row.timestamp))
    if LEVEL_NUMBER not in run.data.metrics:
        logger.place(run.data.tags)
    logger.flush()
    return bool(logger.history)
