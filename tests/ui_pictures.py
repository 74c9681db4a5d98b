"""Takes the pictures of analysis/ui again: fills a store of its own, serves it, and walks through it in a headless Chromium.

    .venv/bin/python -m tests.ui_pictures [FOLDER [NAME ...]]

NAME: of pictures, default all. FOLDER keeps the store (default: a temporary one), so that a second call fills nothing. Needs the
clone and a Chromium; about ten minutes on two CPU cores the first time, for a sweep of nine small verifiers and the summaries of
two imported ones. The hundred runs are made up: how a table and charts of so many look does not depend on their numbers.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image

from rmlab.paths import REPOSITORY
from rmlab.tracking.query import runs
from rmlab.tracking.run import RunLogger
from rmlab.tracking.store import Store
from rmlab.tracking.ui import experiment_address
from rmlab.tracking.views import CURVES
from tests.pages.chromium import Chromium

PICTURES = REPOSITORY / "analysis" / "ui"
SMALL, LARGE = (1440, 900), (1920, 1080)
IMPORTED = ("label_ratio", "data_scale")
NINE = ["turn_visibility", "preset=smoke", "seeds=[0,1,2]"]
HUNDRED = "made_up"
WANTED = sys.argv[2:]
NO_BARS = "<style>.modebar {display: none}</style>"
"""A chart's tools, which show where a pointer is; without one they stand on every chart."""
SETTLE = 6.0
"""Seconds that charts take to be drawn once their page is there; nothing on the page says that they are."""


def fill(store: Store) -> None:
    """Imported sweeps, a sweep of nine runs that are trained here, and last a hundred made-up ones."""
    if runs(store, tags={"sweep": HUNDRED}):
        return  # filled before
    for name in IMPORTED:
        rmlab("runs", "import", str(REPOSITORY / "experiments" / "studies" / name / "runs.zip"))
    rmlab("sweep", *NINE)
    make_up(store)


def make_up(store: Store) -> None:
    """20 levels x 5 seeds of a sweep that never was."""
    draw = np.random.default_rng(0)
    store.describe(HUNDRED, "How do a table and charts of a hundred runs look? The numbers are made up.")
    for place in range(20):
        for seed in range(5):
            level = 100 * (place + 1)
            tags = {"sweep": HUNDRED, "preset": "demo", "factor": "data_scale", "level": level, "place": place}
            name, quality = f"data_scale={level} s{seed}", 1 - np.exp(-level / 700) + draw.normal(0, 0.05)
            with RunLogger.start(store, HUNDRED, name, kind="verifier", tags=tags, params={"seed": seed}) as run:
                for k in (1, 2, 4, 8, 16):
                    run.metric("eval/rm_at_k", 0.5 + 0.08 * np.log2(k) * (quality - 0.4), k)
                values = {"auc_within_task": 0.5 + 0.4 * quality, "auc_pooled": 0.5 + 0.38 * quality}
                values |= {
                    "ece_width_10": 0.3 - 0.25 * quality,
                    "ece_less_floor": 0.27 - 0.25 * quality,
                    "brier": 0.33 - 0.2 * quality,
                }
                run.metrics({f"eval/{metric}": float(value) for metric, value in values.items()})


def rmlab(*words: str) -> None:
    """Runs a command over the store of the environment."""
    subprocess.run([sys.executable, "-m", "rmlab", *words], cwd=REPOSITORY, check=True)


@contextmanager
def served() -> Iterator[str]:
    """The address of the UI over the store of the environment."""
    command = [sys.executable, "-m", "rmlab", "ui"]
    process = subprocess.Popen(command, cwd=REPOSITORY, text=True, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        yield line.split()[-1].partition("/#/")[0]
    finally:
        process.terminate()
        process.wait()


class Walk:
    """Goes from page to page and keeps what is seen."""

    def __init__(self, base: str) -> None:
        self.base, self.page = base, Chromium(*SMALL)

    def take(
        self,
        name: str,
        address: str,
        text: str,
        size: tuple[int, int] = SMALL,
        click: str = "",
        at: tuple[int, int] | None = None,
    ) -> None:
        """A picture of the page at an address. text: by which it is known to be there. click: a word on it that is clicked.
        at: a place that is clicked."""
        if WANTED and name not in WANTED:
            return
        self.page.size(*size)
        self.page.go("about:blank#")
        self.page.call("Page.navigate", url=self.base + address)
        self.page.until(f"document.body !== null && document.body.innerText.includes({text!r})")
        time.sleep(SETTLE)
        if click:
            found = f"[...document.querySelectorAll('*')].filter((one) => one.innerText?.trim() === {click!r}).pop()"
            self.page.run(f"{found}.click()")
        if at:
            for kind in ("mousePressed", "mouseReleased"):
                self.page.call("Input.dispatchMouseEvent", type=kind, x=at[0], y=at[1], button="left", clickCount=1)
        if click or at:
            time.sleep(SETTLE / 2)
        self.page.run(f"document.head.insertAdjacentHTML('beforeend', {NO_BARS!r})")
        save(name, self.page.call("Page.captureScreenshot", format="png")["data"])


def save(name: str, shot: str) -> None:
    """Writes a picture with 64 colours, which pages of text and lines need no more of."""
    import base64

    image = Image.open(BytesIO(base64.b64decode(shot))).convert("RGB")
    target = PICTURES / f"{name}.png"
    image.quantize(64, dither=Image.Dither.NONE).save(target, optimize=True)
    print(f"{target.name}: {target.stat().st_size / 1000:.0f} kB")


def walk(store: Store, base: str) -> None:
    """Every page that README.md shows."""

    def where(sweep: str, view: str | None = None) -> str:
        return (
            experiment_address("", store.experiment(sweep), view)
            if view
            else experiment_address("", store.experiment(sweep))
        )

    def run_page(sweep: str, kind: str, tab: str = "") -> str:
        run = next(run for run in runs(store, tags={"sweep": sweep, "kind": kind}) if "source_run" not in run.tags)
        return f"/#/experiments/{run.experiment_id}/runs/{run.run_id}{tab}?workflowType=machine_learning"

    seen = Walk(base)
    seen.take("start", "/", "label_ratio")
    seen.take("runs", where("data_scale"), "matching runs")
    seen.take("runs-9", where("turn_visibility"), "matching runs", LARGE)
    seen.take("runs-100", where(HUNDRED), "100 matching runs", LARGE)
    seen.take("levels", where("data_scale", CURVES), "level_number vs. ece")
    seen.take("levels-9", where("turn_visibility", CURVES), "level_number vs. ece")
    seen.take("levels-100", where(HUNDRED, CURVES), "level_number vs. ece", LARGE)
    seen.take("summary", run_page("label_ratio", "summary"), "Show more", click="Show more")
    seen.take("figure", run_page("label_ratio", "summary", "/artifacts/figures/reliability.png"), "figures")
    seen.take("run", run_page("turn_visibility", "verifier"), "Show more")
    seen.take("metrics", run_page("turn_visibility", "verifier", "/model-metrics"), "rm_at_k")
    seen.take("reliability", run_page("data_scale", "verifier", "/artifacts/reliability.svg"), "reliability.svg")
    seen.take("browse", run_page("turn_visibility", "verifier", "/artifacts/browse.html"), "browse.html", at=(580, 395))
    compared = [run.run_id for run in runs(store, tags={"sweep": "data_scale", "kind": "verifier"})]
    ids = ",".join(f'"{run_id}"' for run_id in compared)
    experiment = store.experiment("data_scale")
    seen.take("compare", f'/#/compare-runs?runs=[{ids}]&experiments=["{experiment}"]', "Parallel Coordinates Plot")


def main(folder: Path) -> None:
    """Fills the store in a folder, where it is not filled yet, and takes every picture."""
    os.environ["RMLAB_RUNS"] = str(folder)
    store = Store.open()
    fill(store)
    with served() as base:
        walk(store, base)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]).resolve())
    else:
        with tempfile.TemporaryDirectory(prefix="rmlab-pictures-") as name:
            main(Path(name))
