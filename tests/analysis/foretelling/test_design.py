"""The check of the verifiers of which_metric_foretells_rl, and what it keeps from being concluded."""

from pathlib import Path
from typing import Any

import numpy as np

from analysis.foretelling.answering import answer
from analysis.foretelling.design import faults
from analysis.foretelling.runs import read_study
from analysis.foretelling.tables import markdown
from analysis.publication import foretelling
from analysis.rl.policies import PolicyRun
from tests.analysis.foretelling.made_study import PLAN, made_runs


def rows(auc: list[float], ece: list[float]) -> list[dict[str, Any]]:
    return [
        {"name": f"v{i}", "start": "ab"[i % 2], "auc_within_task": a, "ece_width_10": e, "mixed_tasks": 300}
        for i, (a, e) in enumerate(zip(auc, ece, strict=True))
    ]


def test_the_check_of_the_design() -> None:
    rng = np.random.default_rng(1)
    auc = list(np.linspace(0.6, 0.92, 24))
    spread = [0.1, 0.3] * 12
    assert faults(rows(auc, [0.1 + 0.01 * ((i * 7) % 24) for i in range(24)])) == []
    assert "correlate by -1.00" in faults(rows(auc, [1 - a for a in auc]))[0]
    low = [*(0.66 + 0.04 * rng.random(23)), 0.7]
    assert "The highest AUC within task is 0.700, it should be 0.85 or more." in faults(rows(low, spread))
    assert "6 verifiers have an AUC within task below 0.65" in " ".join(faults(rows([0.6] * 6 + auc[6:], spread)))
    assert faults(rows(auc[:2], spread[:2])) == ["2 of 24 verifiers are trained."]
    for undefined in (None, ""):  # of a report, of a table
        lacking = rows(auc, [0.1 + 0.01 * ((i * 7) % 24) for i in range(24)])
        lacking[3]["ece_width_10"] = undefined
        assert faults(lacking)[0] == "Of v3 the AUC within task or the ECE is not known."


def test_auc_rather_than_ece_is_judged_by_the_verifiers_of_the_block_itself(tmp_path: Path) -> None:
    """In `execution_free` both are apart; in the hybrid those whose runs are there are correlated: nothing is concluded of it."""
    runs = made_runs(tmp_path, 0.8, blocks="execution_free hybrid")
    for run in runs:
        made: Any = run.run
        if made.name.startswith("hybrid"):
            made.files["verifier_report.json"]["ece_width_10"] = (
                1 - made.files["verifier_report.json"]["auc_within_task"]
            )
            made.files.pop("paid_report.json", None)
            if "overconfident" in made.name:
                made.files["paid_report.json"] = made.files["verifier_report.json"]
    for free in (24, 15):
        kept = [run for run in runs if run.run.name.startswith("hybrid")] + runs[:free]
        said = " ".join(answer(read_study(kept, PLAN)).sentences)
        assert "not concluded where a verifier and execution pay: the two are correlated here" in said
        assert ("Where a verifier alone pays, AUC rather than ECE orders the outcomes" in said) == (free == 24)


def test_auc_rather_than_ece_needs_both_of_enough_verifiers(tmp_path: Path) -> None:
    """16 verifiers pay, and one of them has no ECE: it is in no comparison of the two."""
    runs = made_runs(tmp_path, 0.8, blocks="execution_free")[:16]
    assert "are needed" not in " ".join(answer(read_study(runs, PLAN)).sentences[:2])
    made: Any = runs[0].run
    made.files["verifier_report.json"]["ece_width_10"] = None
    found = answer(read_study([PolicyRun(run.run) for run in runs], PLAN))
    assert found.over == found.given == {}
    assert "concluded where a verifier alone pays: 15 verifiers have both, 16 are needed." in found.sentences[1]


def test_what_the_design_lacks_is_said_above_the_result_and_in_the_caption(tmp_path: Path) -> None:
    runs = made_runs(tmp_path, 0.8, blocks="execution_free")
    for kept, words in ((runs, "Met."), (runs[:20], "20 of 24 verifiers have an outcome.")):
        study = read_study(kept, PLAN)
        found = answer(study)
        text = markdown(study, found)
        assert text.startswith(f"**Design.** {words}")
        assert text.count("**Design.**") == 1
        assert text.index("**Design.**") < text.index(found.sentences[0])
        caption = foretelling.caption(study, found)
        assert caption.says == found.sentences[0]
        assert ("Not as planned: 20 of 24 verifiers have an outcome." in caption.counts) == (kept is not runs)
