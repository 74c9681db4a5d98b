"""Two agents' runs on the same tasks with reports of a test harness, and a table of scores of somebody's own verifier. All made up.

`python -m tests.made_up_runs FOLDER` writes FOLDER/agent-a, FOLDER/agent-b (mini-SWE-agent's trajectories, predictions and
SWE-bench's report) and FOLDER/my_scores.csv (instance_id, model, p_resolved): the picture in README is of these.

The verifier knows something (each attempt's chance is hidden in it) and is overconfident: its logit is twice what it should be.
"""

import csv
import json
import sys
from pathlib import Path

import numpy as np

REPOSITORIES = (
    "aria__parser",
    "birch__graphs",
    "cedar__orm",
    "delta__units",
    "ember__http",
    "fjord__dates",
    "grove__table",
    "heath__plots",
    "inlet__tests",
    "jetty__docs",
    "karst__files",
    "larch__shell",
)
AGENTS = {"agent-a": 0.7, "agent-b": -0.3}
"""Name to how much better it is than the other, on the logit."""
TASKS = 120


def write_runs(folder: Path, tasks: int = TASKS, seed: int = 0) -> None:
    """Writes the two result folders and the table."""
    rng = np.random.default_rng(seed)
    names = [f"{REPOSITORIES[number % len(REPOSITORIES)]}-{100 + number}" for number in range(tasks)]
    ease_R, ease_T = rng.normal(0, 0.6, len(REPOSITORIES)), rng.normal(0, 1.2, tasks)
    scores: list[dict[str, str]] = []
    for agent, better in AGENTS.items():
        logit_T = ease_R[np.arange(tasks) % len(REPOSITORIES)] + ease_T + better + rng.normal(0, 1.0, tasks)
        resolved_T = rng.random(tasks) < 1 / (1 + np.exp(-logit_T))
        said_T = 1 / (1 + np.exp(-2.0 * (logit_T + rng.normal(0, 0.8, tasks)) - 0.6))
        _write_run(folder / agent, agent, dict(zip(names, resolved_T.tolist(), strict=True)))
        scores += [
            {"instance_id": name, "model": agent, "p_resolved": f"{score:.4f}"}
            for name, score in zip(names, said_T, strict=True)
        ]
    with (folder / "my_scores.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(scores[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(scores)


def _write_run(folder: Path, agent: str, resolved: dict[str, bool]) -> None:
    patches = {name: _patch(name, agent) for name in resolved}
    for name, patch in patches.items():
        path = folder / name / f"{name}.traj.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(_trajectory(name, agent, patch), indent=1), encoding="utf-8")
    predictions = {
        name: {"model_name_or_path": agent, "instance_id": name, "model_patch": patch}
        for name, patch in patches.items()
    }
    (folder / "preds.json").write_text(json.dumps(predictions, indent=1), encoding="utf-8")
    report = {
        "total_instances": len(resolved),
        "submitted_instances": len(resolved),
        "completed_instances": len(resolved),
        "resolved_instances": sum(resolved.values()),
        "unresolved_instances": len(resolved) - sum(resolved.values()),
        "empty_patch_instances": 0,
        "error_instances": 0,
        "completed_ids": sorted(resolved),
        "incomplete_ids": [],
        "empty_patch_ids": [],
        "submitted_ids": sorted(resolved),
        "resolved_ids": sorted(name for name, outcome in resolved.items() if outcome),
        "unresolved_ids": sorted(name for name, outcome in resolved.items() if not outcome),
        "error_ids": [],
        "schema_version": 2,
    }
    (folder / f"{agent}.run1.json").write_text(json.dumps(report, indent=1), encoding="utf-8")


def _trajectory(name: str, agent: str, patch: str) -> dict[str, object]:
    module = name.split("__")[1].rsplit("-", 1)[0]
    turns = [
        ("system", "You are a helpful assistant that can interact with a computer shell to solve programming tasks."),
        ("user", f"<pr_description>\n{module}: the value of case {name.rsplit('-', 1)[1]} is wrong\n</pr_description>"),
        ("assistant", f"THOUGHT: I look at the module first.\n\n```bash\ncat {module}/core.py\n```"),
        ("user", f"<returncode>0</returncode>\n<output>\ndef value(case):\n    return case - 1  # {module}\n</output>"),
        ("assistant", "THOUGHT: One off. I change it and submit.\n\n```bash\necho COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\n```"),
    ]  # fmt: skip
    return {
        "info": {
            "model_stats": {"instance_cost": 0.01, "api_calls": 2},
            "config": {"model": {"model_name": agent}},
            "mini_version": "1.0.0",
            "exit_status": "Submitted",
            "submission": patch,
        },
        "messages": [{"role": role, "content": content} for role, content in turns],
        "trajectory_format": "mini-swe-agent-1",
        "instance_id": name,
    }


def _patch(name: str, agent: str) -> str:
    module = name.split("__")[1].rsplit("-", 1)[0]
    return (
        f"diff --git a/{module}/core.py b/{module}/core.py\n--- a/{module}/core.py\n+++ b/{module}/core.py\n"
        f"@@ -1,2 +1,2 @@\n def value(case):\n-    return case - 1  # {module}\n+    return case  # {name}, {agent}\n"
    )


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tests.made_up_runs FOLDER")
    write_runs(into := Path(sys.argv[1]))
    print(f"{into}: {', '.join(AGENTS)} and my_scores.csv, {TASKS} tasks each")
