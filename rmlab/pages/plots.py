"""Small figures as SVG: axes, lines, bands, points and bars, drawn by hand because a page may not load a library.

Text stays text, so a figure is read aloud, searched and scaled. Every figure has a title that says what it shows.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from rmlab.pages.html import text

BLUE, ORANGE, GREEN, GREY, INK = (
    "#0072B2",
    "#C44E00",
    "#00714F",
    "#6b6b6b",
    "#1a1a1a",
)  # told apart with colour-blind eyes, dark on white
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 26, 42
CHARACTER = 6.4  # width of one at 12 px, about

Points = Sequence[tuple[float, float]]


@dataclass
class Plot:
    """One figure. x, y: ranges of the axes. x_ticks: where None, four to six round numbers. log: x by its binary logarithm."""

    title: str
    x_label: str
    y_label: str
    x: tuple[float, float] = (0.0, 1.0)
    y: tuple[float, float] = (0.0, 1.0)
    x_ticks: Sequence[float] | None = None
    log: bool = False
    width: int = 460
    height: int = 320
    _marks: list[str] = field(default_factory=list)
    _legend: list[tuple[str, str, str]] = field(default_factory=list)

    def line(self, points: Points, colour: str, label: str = "", dash: str = "") -> None:
        """Points joined by straight lines."""
        path = " ".join(f"{self._x(x):.1f},{self._y(y):.1f}" for x, y in points if np.isfinite(y))
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        self._marks.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dashed}/>')
        self._name(label, colour, dash)

    def band(self, low: Points, high: Points, colour: str) -> None:
        """The area between two lines, for intervals."""
        path = " ".join(f"{self._x(x):.1f},{self._y(y):.1f}" for x, y in [*low, *reversed(high)] if np.isfinite(y))
        self._marks.append(f'<polygon points="{path}" fill="{colour}" fill-opacity="0.15" stroke="none"/>')

    def dots(self, points: Points, colour: str, label: str = "", hints: Sequence[str] = ()) -> None:
        """A dot each. hints: what is shown when one is pointed at."""
        for i, (x, y) in enumerate(points):
            hint = f"<title>{text(hints[i])}</title>" if hints else ""
            self._marks.append(
                f'<circle cx="{self._x(x):.1f}" cy="{self._y(y):.1f}" r="4" fill="{colour}">{hint}</circle>'
            )
        self._name(label, colour, "dot" if label else "")

    def whiskers(self, x_N: Sequence[float], ends_N: Sequence[tuple[float, float]], colour: str) -> None:
        """Vertical intervals."""
        for x, (low, high) in zip(x_N, ends_N, strict=True):
            self._marks.append(
                f'<path d="M{self._x(x):.1f} {self._y(low):.1f}V{self._y(high):.1f}" stroke="{colour}" stroke-width="1.5"/>'
            )

    def bars(self, edges: Sequence[float], heights: Sequence[float], colour: str, label: str = "") -> None:
        """A histogram: bars between neighbouring edges, from 0 up."""
        for left, right, height in zip(edges[:-1], edges[1:], heights, strict=True):
            if height > 0:
                x, y = self._x(left), self._y(height)
                self._marks.append(
                    f'<rect x="{x + 0.5:.1f}" y="{y:.1f}" width="{max(self._x(right) - x - 1, 0.5):.1f}" '
                    f'height="{self._y(0) - y:.1f}" fill="{colour}" fill-opacity="0.45" stroke="{colour}"/>'
                )
        self._name(label, colour, "box" if label else "")

    def svg(self) -> str:
        """The figure as markup."""
        return (
            f'<svg viewBox="0 0 {self.width} {self.height}" role="img" aria-label="{text(self.title)}" font-size="12" fill="{INK}">'
            f"<title>{text(self.title)}</title>{self._axes()}{''.join(self._marks)}{self._legend_marks()}</svg>"
        )

    def _axes(self) -> str:
        right, bottom = self.width - RIGHT, self.height - BOTTOM
        marks = []
        for tick in self.x_ticks if self.x_ticks is not None else _round_ticks(*self.x):
            at = self._x(tick)
            marks.append(
                f'<path d="M{at:.1f} {TOP}V{bottom}" stroke="#e6e6e6"/>'
                f'<text x="{at:.1f}" y="{bottom + 16}" text-anchor="middle">{tick:g}</text>'
            )
        for tick in _round_ticks(*self.y):
            at = self._y(tick)
            marks.append(
                f'<path d="M{LEFT} {at:.1f}H{right}" stroke="#e6e6e6"/>'
                f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{tick:g}</text>'
            )
        marks.append(f'<path d="M{LEFT} {TOP}V{bottom}H{right}" fill="none" stroke="{GREY}"/>')
        marks.append(
            f'<text x="{(LEFT + right) / 2}" y="{self.height - 8}" text-anchor="middle">{text(self.x_label)}</text>'
        )
        marks.append(
            f'<text transform="translate(13 {(TOP + bottom) / 2}) rotate(-90)" text-anchor="middle">{text(self.y_label)}</text>'
        )
        return "".join(marks)

    def _legend_marks(self) -> str:
        marks, at = [], float(LEFT)
        for label, colour, kind in self._legend:
            if kind == "dot":
                sign = f'<circle cx="{at + 8:.0f}" cy="12" r="4" fill="{colour}"/>'
            elif kind == "box":
                sign = f'<rect x="{at:.0f}" y="7" width="16" height="10" fill="{colour}" fill-opacity="0.45" stroke="{colour}"/>'
            else:
                dashed = f' stroke-dasharray="{kind}"' if kind else ""
                sign = f'<path d="M{at:.0f} 12h16" stroke="{colour}" stroke-width="2"{dashed}/>'
            marks.append(f'{sign}<text x="{at + 21:.0f}" y="16">{text(label)}</text>')
            at += 30 + CHARACTER * len(label)
        return "".join(marks)

    def _name(self, label: str, colour: str, kind: str) -> None:
        if label:
            self._legend.append((label, colour, kind))

    def _x(self, value: float) -> float:
        low, high, at = (*self.x, value) if not self.log else np.log2([*self.x, value])
        span = high - low or 1.0
        return float(LEFT + (at - low) / span * (self.width - LEFT - RIGHT))

    def _y(self, value: float) -> float:
        low, high = self.y
        return float(
            self.height
            - BOTTOM
            - (min(max(value, low), high) - low) / ((high - low) or 1.0) * (self.height - TOP - BOTTOM)
        )


def _round_ticks(low: float, high: float) -> list[float]:
    """Four to seven round numbers from low to high."""
    span = high - low
    if not span > 0:
        return [low]
    power = 10.0 ** np.floor(np.log10(span))
    step = next(step for step in (0.2 * power, 0.25 * power, 0.5 * power, power, 2 * power) if span / step <= 6)
    first = np.ceil(low / step - 1e-9) * step
    return [float(f"{tick:.10g}") + 0.0 for tick in np.arange(first, high + step * 1e-6, step)]
