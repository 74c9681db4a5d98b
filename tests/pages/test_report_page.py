import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from rmlab.baselines.rules import table_baselines
from rmlab.commands.evaluate import evaluate
from rmlab.metrics.report import report
from rmlab.pages.plots import Plot
from rmlab.pages.report_page import report_page
from rmlab.pages.report_tables import notes_of
from rmlab.scores.scores import Scores
from tests.pages import chromium


def scores(tasks=12, attempts=4, name="task"):
    rng = np.random.default_rng(0)
    label = rng.random(tasks * attempts) < 0.5
    score = np.clip(label * 0.4 + rng.random(tasks * attempts) * 0.6, 0, 1)
    return Scores.of(
        [f"{name}-{i // attempts}" for i in range(tasks * attempts)],
        score,
        label,
        trajectory_id=[f"x{i}" for i in range(tasks * attempts)],
    )


def made(table):
    found = report(table, replicates=100, folds=3)
    return {**found, "baselines": table_baselines(table), "selection": None, "notes": ["a note"]}


class Tags(HTMLParser):
    """Tags and attributes of a page."""

    def __init__(self, page):
        super().__init__()
        self.found = []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))


def test_a_page_holds_figures_numbers_and_the_worst_errors_and_loads_nothing():
    table = scores()
    found = made(table)
    page = report_page("scores.csv", found, table)
    tags = Tags(page).found
    assert sum(tag == "svg" for tag, _ in tags) == 4
    for words in (
        "RM@k",
        "Reliability",
        "Scores by label",
        "Risk and coverage",
        "noise floor",
        "Calibrated on other clusters",
        "a note",
        "most confident mistakes",
        "Without a verifier",
        f"{found['auc_within_task']:.4f}",
        f"{found['ci95']['brier'][0]:.4f}",
    ):
        assert words in page, words
    assert not [tag for tag, _ in tags if tag in ("script", "img", "iframe", "object")]
    assert not [
        a
        for _, a in tags
        for name in a
        if name in ("src", "href", "style", "xlink:href") and not a[name].startswith("data:")
    ]
    assert not re.search(r"url\(|@import", page)
    worst = page[page.index("most confident mistakes") :]
    wrong = np.abs(table.score - table.resolved)
    assert worst.index(f"x{int(np.argmax(wrong))}<") < worst.index("x", worst.index(f"x{int(np.argmax(wrong))}<") + 3)


def test_names_are_text():
    table = scores(name="<script>alert(1)</script>&")
    page = report_page("<b>", made(table), table)
    assert not [tag for tag, _ in Tags(page).found if tag in ("script", "b")]
    assert "&lt;script&gt;" in page


@pytest.mark.parametrize(
    "table",
    [
        Scores.of(["t", "u"], [np.nan, np.nan], [1, 0]),
        Scores.of(["t"], [0.5], [1]),
        Scores.of(["t", "u"], [0.0, 1.0], [0, 0]),
        Scores.of(["t", "u"], [0.5, 0.5], [np.nan, np.nan]),
        Scores.of(["t"] * 3, [0.1, 0.2, np.nan], [1, 1, 1]),
    ],
)
def test_tables_with_little_in_them_still_make_a_page(table):
    assert "</html>" in report_page("few", made(table), table)


def test_the_command_writes_it(tmp_path, capsys):
    path = tmp_path / "scores.jsonl"
    rows = [{"id": f"t{i // 2}", "p": [0.2, 0.9, 0.4][i % 3], "y": i % 2, "r": 1, "g": 0.5} for i in range(12)]
    path.write_text("\n".join(map(json.dumps, rows)))
    columns = ["task_id=id,score=p,resolved=y", "regression=r,reproduction=g"]
    evaluate([path], True, columns=columns, html=tmp_path / "r.html")
    found = json.loads(capsys.readouterr().out)
    assert found["selection"]["hybrid"].keys() == {"1", "2"}
    assert found["post_hoc_fitted_on"] == "5 folds"
    page = (tmp_path / "r.html").read_text()
    assert "Selection by score, by tests, by both" in page


@pytest.mark.parametrize("width", [1280, 800])
def test_a_browser_shows_it_without_a_complaint(tmp_path, width):
    if chromium.find() is None:
        pytest.skip(f"no browser is here: none of {', '.join(chromium.NAMES)}")
    table = scores(name="a-very-long-name-of-a-task/" * 8)
    path = tmp_path / "page.html"
    path.write_text(report_page("scores.csv", made(table), table))
    browser = chromium.Chromium(width)
    try:
        browser.go(path.as_uri())
        assert browser.complaints() == []
        assert browser.requests() == [path.as_uri()]
        assert browser.run("document.documentElement.scrollWidth") <= width
        assert browser.run(
            "[...document.querySelectorAll('svg')].every((one) => one.getBoundingClientRect().width > 300)"
        )
    finally:
        browser.close()


def test_ticks_are_round_numbers_within_the_axis():
    for low, high in ((0.0, 1.0), (0.43, 0.99), (0.0, 0.07), (0.0, 0.6), (2.0, 2.0), (0.0, 3e-9)):
        svg = Plot("a", "x", "y", y=(low, high)).svg()
        ticks = [float(tick) for tick in re.findall(r'text-anchor="end">([^<]+)<', svg)]
        assert 1 <= len(ticks) <= 7
        assert all(low - 1e-9 <= tick <= high * (1 + 1e-6) + 1e-12 for tick in ticks)
    assert "-0<" not in Plot("a", "x", "y").svg()


@pytest.mark.parametrize(
    ("stretch", "words"), [(3.0, "overconfident"), (1 / 3, "underconfident"), (1.0, "neither over- nor")]
)
def test_the_slope_says_in_which_direction_scores_are_wrong(stretch: float, words: str) -> None:
    rng = np.random.default_rng(0)
    logit = rng.normal(0, 1.5, 2000)
    label = rng.random(2000) < 1 / (1 + np.exp(-logit))
    tasks = [f"t{i // 4}" for i in range(2000)]
    found = report(Scores.of(tasks, 1 / (1 + np.exp(-stretch * logit)), label), replicates=200)
    assert words in notes_of(found)["calibration_slope"]
