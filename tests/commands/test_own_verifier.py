"""README's commands for somebody's own verifier, and for any model that scores, on runs that are made up."""

import json
import re
import shlex
from pathlib import Path

import pytest

from rmlab.cli import app
from rmlab.commands.compare import compare
from rmlab.commands.evaluate import evaluate
from rmlab.commands.import_trajectories import import_trajectories
from rmlab.errors import DataError
from tests.made_up_runs import write_runs
from tests.verifiers.tiny_models import write_model

README = Path(__file__).parents[2] / "README.md"


def section(title: str) -> str:
    """What README says under a heading."""
    return README.read_text(encoding="utf-8").split(f"## {title}\n")[1].split("\n## ")[0]


def run_commands(title: str) -> None:
    """Runs the commands of a section of README in the working folder."""
    lines = [line for line in section(title).splitlines() if line.startswith("rmlab ")]
    assert len(lines) > 1
    for line in lines:
        app(shlex.split(line, comments=True)[1:], standalone_mode=False)


@pytest.fixture
def made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RMLAB_RUNS", str(tmp_path / "runs"))
    return tmp_path


def test_two_commands_from_result_folders_to_a_report(made_up: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_runs(made_up)
    run_commands("Is my verifier calibrated?")
    shown = " ".join(capsys.readouterr().out.split())
    for words in (
        "240 trajectories of 120 tasks: 240 labelled",
        "policies: agent-a 120, agent-b 120",
        "240 labelled attempts of 2 policies",
        "2,000 resamples of 12 clusters",
        "joined with set.parquet: 240 rows by task and policy",
        "every row of the table is in the set; every trajectory of the set has a row",
        "the same, across policies",
        "policy identity",
    ):
        assert words in shown
    assert "Reliability" in Path("report.html").read_text()
    names = ["task_id=instance_id,policy=model,score=p_resolved"]
    evaluate([Path("my_scores.csv")], True, trajectories=Path("set.parquet"), columns=names)
    found = json.loads(capsys.readouterr().out)
    low, high = found["ci95"]["ece_width_10"]
    auc_low, auc_high = found["ci95"]["auc_within_task_across"]
    caption = section("Is my verifier calibrated?")
    for words in (
        f"its ECE is {found['ece_width_10']:.2f} [{low:.2f}, {high:.2f}]",
        f"stay below {found['ece_noise_floor_task_p95']:.3f}",
        f"on other repositories it is {found['post_hoc']['isotonic']['ece_width_10']:.2f}",
        f"with {found['auc_within_task_across']:.2f} [{auc_low:.2f}, {auc_high:.2f}]",
    ):
        assert words in caption


def test_two_verifiers_of_one_attempt_a_policy_are_compared_within_tasks(
    made_up: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, scores in (("a", (0.9, 0.1)), ("b", (0.4, 0.6))):
        rows = [f"t{t},{p},{s},{y}" for t in range(9) for p, s, y in zip("pq", scores, (1, 0), strict=True)]
        Path(f"{name}.csv").write_text("\n".join(["task_id,policy,score,resolved", *rows]))
    found = compare("a.csv", "b.csv")
    across = found["metrics"]["auc_within_task_across"]
    assert (across["a"], across["b"], across["ci95"]) == (1.0, 0.0, [1.0, 1.0])
    assert "auc_within_task_across" in capsys.readouterr().out


def test_any_model_scores_what_was_imported(made_up: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_runs(made_up, tasks=6)
    import_trajectories("auto", ["agent-a", "agent-b"], Path("set.parquet"))
    write_model(Path("models/judge"), "qwen2", positions=32768)
    Path("mine.txt").write_text("{issue}\n{patch}\n{yes} or {no}?")
    run_commands("Score with any model")
    shown = capsys.readouterr().out
    assert re.search(r"answers 'YES' \(token \d+\) and 'NO' \(token \d+\)", shown)
    assert "answers 'good'" in shown
    assert "12 rows by trajectory_id" in shown


def test_a_context_that_no_attempt_fits_is_refused(made_up: Path) -> None:
    write_runs(made_up, tasks=2)
    import_trajectories("auto", ["agent-a", "agent-b"], Path("set.parquet"))
    write_model(Path("models/judge"), "qwen2", positions=32768)
    asked = "score --model models/judge set.parquet -o scores.parquet --max-tokens 10"
    with pytest.raises(DataError, match="none of the 4 attempts fits the context"):
        app(shlex.split(asked), standalone_mode=False)
    assert not Path("scores.parquet").exists()
