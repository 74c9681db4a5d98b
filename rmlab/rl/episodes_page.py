"""Episodes to read: a few attempts of a policy as one HTML file, all text escaped.

What a number cannot say: whether a policy that scores well repairs functions, or has found what its verifier likes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from rmlab.pages.html import page, text
from rmlab.trajectories.record import Trajectory

STYLE = """body{font:14px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}
article{border:1px solid #ccc;border-radius:6px;padding:.5rem 1rem;margin:1rem 0}
pre{white-space:pre-wrap;overflow-wrap:anywhere;margin:.25rem 0;padding:.35rem .6rem;border-radius:4px;background:#f4f4f4}
pre.assistant{background:#e6f0fa}h2{font-size:1rem;margin:.25rem 0}.yes{color:#0072b2}.no{color:#d55e00}"""


@dataclass(frozen=True)
class Shown:
    """An attempt with what it was paid, by part, and the verifier's score (None without one)."""

    trajectory: Trajectory
    parts: dict[str, float]
    score: float | None


def episodes_page(title: str, episodes: Sequence[Shown]) -> str:
    """The page's markup, in the order given."""
    return page(title, f"<h1>{text(title)}</h1>\n" + "\n".join(_article(shown) for shown in episodes), STYLE)


def _article(shown: Shown) -> str:
    own = shown.trajectory
    label = '<b class="yes">resolved</b>' if own.resolved else '<b class="no">not resolved</b>'
    paid = ", ".join(f"{name} {value:+.2f}" for name, value in shown.parts.items())
    score = "" if shown.score is None else f", verifier {shown.score:.3f}"
    turns = "\n".join(f'<pre class="{text(m.role)}">{text(m.content)}</pre>' for m in own.messages)
    return (
        f"<article><h2>{text(own.task_id)} #{own.attempt}</h2><p>{label}, {text(own.exit_status)}{text(score)}; paid {text(paid)}</p>\n"
        f"{turns}</article>"
    )
