"""What an import did, in numbers and places: one object for programs, a few lines for people."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from rmlab.trajectories.ingest.assemble import ImportResult
from rmlab.wording import counted

SHOWN = 20  # places of one kind that a summary names; all are counted


def summary(result: ImportResult, notes: Sequence[str] = ()) -> dict[str, Any]:
    """The object of `rmlab import --json`. notes: what else is to be said, one line each."""
    imported, joined = result.imported, result.joined
    labels = [joined.label.get(i) for i in result.rows]
    return {
        "trajectories": len(result.rows),
        "tasks": len({result.task[i] for i in result.rows}),
        "labelled": sum(label is not None for label in labels),
        "resolved": sum(label is not None and label[0] for label in labels),
        "policies": dict(sorted(Counter(result.policy[i] for i in result.rows).items())),
        "duplicates": result.duplicates,
        "skipped": dict(sorted(imported.skipped.items())),
        "formats": dict(sorted(Counter(imported.drafts[i].format for i in result.rows).items())),
        "exit_statuses": dict(sorted(Counter(imported.drafts[i].exit_status for i in result.rows).items())),
        "without_patch": sum(not imported.has_patch[i] and i not in result.patch for i in result.rows),
        "removed": dict(sorted(imported.removed.items())),
        "reports": _reports(result),
        "predictions": [
            {"place": str(p.location), "tasks": len(p.patch), "empty": sum(not t.strip() for t in p.patch.values())}
            for p in imported.predictions
        ],
        "conflicts": len(joined.conflicts),
        "ambiguous": len(joined.ambiguous),
        "not_evaluated": dict(sorted(joined.unfinished.items())),
        "mended": len(imported.mended),
        "notes": [*(f"{r.location}: {r.note}" for r in imported.reports if r.note), *joined.notes, *notes],
        "outcomes_in_prompts": len(imported.leaks),
        "hidden_tests_named": len(result.hidden_seen),
        "places": {
            "skipped": [f"{one.location}: {one.reason}" for one in imported.skips[:SHOWN]],
            "duplicates": [
                f"{imported.drafts[i].location} = {', '.join(others)}"
                for i, others in list(result.also.items())[:SHOWN]
            ],
            "conflicts": joined.conflicts[:SHOWN],
            "ambiguous": joined.ambiguous[:SHOWN],
            "mended": imported.mended[:SHOWN],
            "outcomes_in_prompts": imported.leaks[:SHOWN],
            "hidden_tests_named": result.hidden_seen[:SHOWN],
        },
    }


def _reports(result: ImportResult) -> list[dict[str, Any]]:
    """Each report's own counts; those of single instances are added up by their folder."""
    rows: dict[tuple[str, str, str], dict[str, Any]] = {}
    for report in result.imported.reports:
        single = report.kind == "report.json"
        location = str(report.location).rsplit("/", 2)[0] + "/*/report.json" if single else str(report.location)
        row = rows.setdefault(
            (location, report.kind, report.system),
            {
                "place": location,
                "kind": report.kind,
                "system": report.system or None,
                "stated": 0,
                "resolved": 0,
                "not_evaluated": 0,
                "contradictions": 0,
            },
        )
        row["stated"] += len(report.outcome)
        row["resolved"] += report.resolved
        row["not_evaluated"] += len(report.unfinished)
        row["contradictions"] += len(report.contradictions)
    return list(rows.values())


def lines(result: dict[str, Any], leaks_dropped: bool = False) -> list[str]:
    """The summary for people. leaks_dropped: attempts whose prompt holds an outcome were left out, as was asked."""

    def listed(counts: dict[str, int]) -> str:
        return (
            ", ".join(f"{name} {n:,}" for name, n in sorted(counts.items(), key=lambda item: (-item[1], item[0])))
            or "none"
        )

    shown = [
        f"{counted(result['trajectories'], 'trajectory', 'trajectories')} of {counted(result['tasks'], 'task')}: "
        f"{result['labelled']:,} labelled, {result['resolved']:,} resolved",
        f"policies: {listed(result['policies'])}",
        f"formats: {listed(result['formats'])}; ended: {listed(result['exit_statuses'])}; without a patch: {result['without_patch']:,}",
        f"copies kept once: {result['duplicates']:,}; skipped: {listed(result['skipped'])}",
    ]
    if result["removed"]:
        shown.append(f"removed from what was read: {listed(result['removed'])}")
    stated = sum(r["stated"] for r in result["reports"])
    if result["reports"]:
        reports = counted(len(result["reports"]), "report states", "reports state")
        shown.append(f"labels found: {reports} {counted(stated, 'outcome')}")
    elif result["trajectories"] > result["labelled"]:
        shown.append("labels found: none beside the trajectories; reports that lie elsewhere are named behind --labels")
    if result["predictions"]:
        patches = sum(p["tasks"] for p in result["predictions"])
        files = counted(len(result["predictions"]), "file lists", "files list")
        empty = sum(p["empty"] for p in result["predictions"])
        shown.append(f"predictions found: {files} {counted(patches, 'patch', 'patches')} ({empty:,} empty)")
    leaks = "outcomes in prompts " + (
        "(their attempts were left out)"
        if leaks_dropped
        else "(training refuses them; --leaks drop leaves the attempts out)"
    )
    if result["not_evaluated"]:
        shown.append(f"named in a report without an outcome (unlabelled): {listed(result['not_evaluated'])}")
    for kind, words in (
        ("conflicts", "labels in conflict (unlabelled)"),
        ("ambiguous", "labels that could mean several attempts (unlabelled)"),
        ("mended", "files that are not strict JSON"),
        ("outcomes_in_prompts", leaks),
        ("hidden_tests_named", "hidden tests named in prompts"),
    ):
        if result[kind]:
            shown.append(f"{words}: {result[kind]:,}, first {result['places'][kind][0]}")
    shown += [f"note: {note}" for note in result["notes"]]
    for location in result["places"]["skipped"][:3]:
        shown.append(f"skipped {location}")
    return shown
