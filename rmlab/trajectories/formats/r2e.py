"""R2E-Gym's own runs: JSON lines of `trajectory_steps`, each a thought, an action in XML and what was observed.

The row states the reward (1.0 = the hidden tests passed), the patch (`output_patch`) and why the run ended (`exit_reason`).
The task is `ds.instance_id` where the row keeps its data entry, else the docker image, as in the sets on the hub. What the
tests printed is never kept.
"""

from typing import Any

from rmlab.trajectories.draft import Draft
from rmlab.trajectories.formats.calls import call, of_text, turn
from rmlab.trajectories.formats.protocol import exit_status, proven, task_by_place
from rmlab.trajectories.places import Place
from rmlab.trajectories.reading import as_dict, as_list, as_text, clean, first_text
from rmlab.trajectories.record import Message

HELD_BACK = ("test_output", "regression_test_output", "custom_test_outputs")


class R2EGym:
    """One row."""

    name = "r2e-gym"

    def matches(self, document: Any) -> bool:
        return any(
            "action" in as_dict(s) or "observation" in as_dict(s)
            for s in as_list(as_dict(document).get("trajectory_steps"))[:1]
        )

    def read(self, document: Any, place: Place) -> Draft:
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
            place=place,
            format=self.name,
            task_id=first_text(entry.get("instance_id"), document.get("docker_image"))
            or task_by_place(messages, place),
            policy=as_text(agent.get("llm_name")),
            messages=messages,
            patch=clean(as_text(document.get("output_patch"))) or None,
            exit_status=exit_status("submitted" if ended in ("agent", "submit") else ended, submitted=False),
            names=tuple(n for n in (as_text(document.get("exp_name")),) if n),
            resolved=resolved,
            label_source=f"{place}: reward" if resolved is not None else None,
            repository=first_text(entry.get("repo")),
        )
        draft.removed.update({f"column {key}": 1 for key in HELD_BACK if document.get(key)})
        return proven(draft, crashed=ended if draft.exit_status == "error" else "")
