"""R2E-Gym's own runs: JSON lines of `trajectory_steps`, each a thought, an action in XML and what was observed.

The row states the reward (1.0 = the hidden tests passed), the patch (`output_patch`) and why the run ended (`exit_reason`).
The task is `ds.instance_id` where the row keeps its data entry, else the docker image, as in the sets on the hub. What the
tests printed is never kept.
"""

import re
from typing import Any

from rmlab.trajectories.ingest.drafts import Draft
from rmlab.trajectories.ingest.json_text import as_dict, as_list, as_text, first_text
from rmlab.trajectories.ingest.locations import Location
from rmlab.trajectories.readers.calls import call, of_text, turn
from rmlab.trajectories.readers.protocol import exit_status, register, task_by_location, validated
from rmlab.trajectories.record import Message, clean

HELD_BACK = ("test_output", "regression_test_output", "custom_test_outputs")


@register(order=50)
class R2EGym:
    """One row."""

    name = "r2e-gym"

    def matches(self, document: Any) -> bool:
        return any(
            "action" in as_dict(s) or "observation" in as_dict(s)
            for s in as_list(as_dict(document).get("trajectory_steps"))[:1]
        )

    def read(self, document: Any, location: Location) -> Draft:
        entry, agent = as_dict(document.get("ds")), as_dict(document.get("agent_args"))
        opening = (
            Message("system", clean(as_text(agent.get("system_prompt")))),
            Message("user", clean(as_text(document.get("problem_statement")))),
        )
        messages = [message for message in opening if message.content.strip()]
        for step in map(as_dict, as_list(document.get("trajectory_steps"))):
            action, thought = clean(as_text(step.get("action"))), clean(as_text(step.get("thought")))
            done = (
                of_text(action)
                if "<function=" in action
                else call("bash", {"command": action})
                if action.strip()
                else ""
            )
            if done or thought.strip():
                messages.append(Message("assistant", turn(thought, [done] if done else [])))
            if as_text(step.get("observation")).strip():
                messages.append(Message("tool", clean(step["observation"])))
        reward = document.get("reward")
        resolved = reward == 1 if isinstance(reward, (int, float)) and reward in (0, 1) else None
        ended = as_text(document.get("exit_reason"))
        draft = Draft(
            location=location,
            format=self.name,
            task_id=first_text(entry.get("instance_id"), document.get("docker_image"))
            or task_by_location(messages, location),
            policy=as_text(agent.get("llm_name")),
            messages=messages,
            patch=clean(as_text(document.get("output_patch"))) or None,
            exit_status=exit_status("submitted" if ended in ("agent", "submit") else ended, submitted=False),
            names=tuple(n for n in (as_text(document.get("exp_name")),) if n),
            resolved=resolved,
            label_source=f"{location}: reward" if resolved is not None else None,
            repository=first_text(entry.get("repo")),
        )
        draft.removed.update({f"column {key}": 1 for key in HELD_BACK if document.get(key)})
        return validated(draft, crashed=ended if draft.exit_status == "error" else "")


LOG, LOG_ENDS = "=== INTERACTION LOG ===", ("=== END INTERACTION", "=== END")
PATCH, PATCH_END = "=== FINAL PATCH ===", "=== END FINAL PATCH"
STEP = re.compile(r"^\[STEP\]\n\s*\d+\s*\n\[/STEP\]\s*$", re.MULTILINE)
MARK = re.compile(r"^\[(/?)([A-Za-z]+)\]$")
ROLES = ("system", "user", "assistant", "tool")


def judged_attempt(prompt: str) -> tuple[list[tuple[str, str]], str | None]:
    """(role, text) of each turn, and the patch (None where the prompt has none)."""
    log, patch = prompt.split(LOG, 1)[1], None
    if PATCH in log:
        log, _, rest = log.rpartition(PATCH)
        inner = rest.rpartition(PATCH_END)[0] or rest
        lines = [line for line in inner.split("\n") if line.strip() not in ("[PATCH]", "[/PATCH]")]
        patch = "\n".join(lines).strip("\n") or None
    end = next((one for one in LOG_ENDS if one in log), None)
    body = log.rpartition(end)[0] if end else log
    closed = any(
        (mark := MARK.match(line.strip())) and mark[1] and mark[2].lower() in ROLES for line in body.split("\n")
    )
    turns: list[tuple[str, list[str]]] = []
    now = ""  # the role whose turn is open
    for line in body.split("\n"):
        mark = MARK.match(line.strip())
        role = mark[2].lower() if mark else ""
        if mark and not mark[1] and role in ROLES and not (closed and now):
            turns.append((role, []))
            now = role
        elif mark and mark[1] and role == now:
            now = ""
        elif turns:
            turns[-1][1].append(line)
    return [(role, STEP.sub("", "\n".join(lines)).strip()) for role, lines in turns], patch and patch + "\n"
