"""`rmlab bench`: every script keeps to one shape, and what it measured is tracked."""

import ast
import os
from pathlib import Path

import pytest

from rmlab.benchmark import BenchmarkRow, benchmark_table
from rmlab.commands.bench import bench, benchmark_names, question, row_metrics, run_benchmark, split_arguments
from rmlab.errors import RmlabError, UsageError
from rmlab.paths import BENCHMARKS
from rmlab.tracking.query import runs
from rmlab.tracking.store import Store
from rmlab.tracking.tags import check_names

EXAMPLE = '''"""Does the sum hold?"""
import sys
from rmlab.benchmark import BenchmarkRow, run_script

def main(arguments):
    print("measuring", *arguments)
    if "--break" in arguments:
        sys.exit("it does not hold")
    return [BenchmarkRow("sum of 2 × 2", "tokens/s", 50.0, floor=100.0, theirs=25.0)]

if __name__ == "__main__":
    run_script(main)
'''


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "holds.py").write_text(EXAMPLE)
    monkeypatch.setenv("RMLAB_RUNS", str(tmp_path / "runs"))
    monkeypatch.setattr("rmlab.commands.bench.BENCHMARKS", tmp_path)
    return "holds"


@pytest.mark.parametrize("name", benchmark_names())
def test_every_script_has_the_shape(name: str) -> None:
    tree = ast.parse((BENCHMARKS / f"{name}.py").read_text(encoding="utf-8"))
    (main,) = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "main"]
    assert [argument.arg for argument in main.args.args] == ["arguments"]
    assert ast.unparse(main.returns) == "list[BenchmarkRow]"
    assert ast.unparse(tree.body[-1]) == "if __name__ == '__main__':\n    run_script(main)"
    assert len(question(name)) > 20
    assert f"## {name}.py" in (BENCHMARKS / "README.md").read_text(encoding="utf-8")


def test_the_ratio_says_how_many_times_as_good() -> None:
    """Of times and bytes less is better, of rates more; the floor counts where there is nobody else's."""
    assert BenchmarkRow("step", "ms", 4.0, floor=1.0).ratio == 0.25
    assert BenchmarkRow("step", "ms", 4.0, floor=1.0, theirs=8.0).ratio == 2.0
    assert BenchmarkRow("reading", "tokens/s", 50.0, floor=100.0).ratio == 0.5
    assert BenchmarkRow("alone", "s", 1.0).ratio is None
    assert benchmark_table([BenchmarkRow("reading", "tokens/s", 41234.5, theirs=10308.6)]).splitlines()[-1] == (
        "| reading | tokens/s | - | 41,234 | 10,309 | 4 |"
    )


def test_options_go_to_the_script() -> None:
    assert split_arguments(["decoding", "slots=64"]) == (["decoding"], ["--slots", "64"])
    assert split_arguments(["launching", "ways=[local,joblib]", "cells=2"])[1] == [
        "--ways",
        "local",
        "joblib",
        "--cells",
        "2",
    ]
    assert split_arguments(["rollouts", "skip_generate=true"])[1] == ["--skip-generate"]
    assert split_arguments(["decoding", "--device", "cuda"])[1] == ["--device", "cuda"]
    assert split_arguments(["decoding", "execution"]) == (["decoding", "execution"], [])
    with pytest.raises(UsageError, match=r"no benchmark 'decodin' .did you mean decoding"):
        split_arguments(["decodin"])
    with pytest.raises(UsageError, match="options apply to one script"):
        bench(["decoding", "execution", "slots=4"])
    with pytest.raises(UsageError, match="name the benchmark that the option is for"):
        bench(["slots=4"])


def test_without_a_name_they_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    bench()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == benchmark_names()
    assert "decoding step" in next(line for line in lines if line.startswith("decoding"))


def test_a_result_is_tracked(example: str, capsys: pytest.CaptureFixture[str]) -> None:
    bench([example, "size=2"])
    printed = capsys.readouterr().out
    assert "measuring --size 2" in printed
    assert "| sum of 2 × 2 | tokens/s | 100 | 50 | 25 | 2 |" in printed
    (run,) = runs(Store.open(), tags={"kind": "benchmark"})
    assert (run.params["benchmark"], run.params["options"], run.tags["status"]) == ("holds", "--size 2", "finished")
    assert run.metrics == {
        f"{name}/sum of 2 x 2 tokens per s": v
        for name, v in zip(("ours", "floor", "theirs", "ratio"), (50, 100, 25, 2), strict=True)
    }
    assert "| sum of 2 × 2 |" in run.artifact("table.md").read_text(encoding="utf-8")


def test_what_fails_is_not_tracked(example: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RmlabError, match=r"benchmark holds ended with code 1, .* rmlab bench holds -- --help"):
        bench([example, "--break"])
    assert "it does not hold" in capfd.readouterr().err
    assert Store.existing(None) is None


def test_a_script_that_only_prints_is_run_and_not_tracked(example: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(os.environ["RMLAB_RUNS"]).parent / "prints.py"
    path.write_text('"""Does it print?"""\nprint("42 tokens/s")\n')
    bench(["prints"])
    assert "42 tokens/s" in capsys.readouterr().out
    assert Store.existing(None) is None


def test_any_row_has_names_that_the_store_takes() -> None:
    for what in ("reading of 128 × 16, span 256", "4B (Qwen3) at 32,768 tokens: memory", "…/x/", "a" * 300):
        check_names(row_metrics(BenchmarkRow(what, "GiB/s", 1.0)))


def test_a_shipped_script_runs() -> None:
    record, output = run_benchmark("near_duplicates", ["--tasks", "300"])
    assert record is not None
    assert [row.unit for row in record.rows] == ["s", "s", "MB"]
    assert "2 of 2 planted pairs found" in output
    assert record.machine["python"].startswith("3.")
