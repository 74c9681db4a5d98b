"""The reader in a real browser: sorting, keys, one click to turns and patch, and nothing that a trajectory holds can act."""

import numpy as np
import pytest

from rmlab.pages.browse import most_wrong_first, write_browse_page
from tests.pages import chromium
from tests.pages.browsing import HOSTILE, attempt, hostile_attempts, serving, table


@pytest.fixture(scope="module")
def browser():
    if chromium.find() is None:
        pytest.skip(f"no browser is here: none of {', '.join(chromium.NAMES)}")
    page = chromium.Chromium()
    yield page
    page.close()


def test_hostile_content_is_shown_and_does_nothing(browser, tmp_path):
    _, attempts = hostile_attempts()
    write_browse_page(tmp_path / "page.html", "scores", attempts)
    browser.events.clear()
    browser.go((tmp_path / "page.html").as_uri())
    count = browser.run("document.querySelectorAll('#rows tr:not(.spacer)').length")
    assert count == len(HOSTILE)
    shown = []
    for row in range(count):
        browser.run(f"document.querySelectorAll('#rows tr:not(.spacer)')[{row}].click()")
        shown.append(browser.run("document.getElementById('reader').textContent"))
    for bad in (
        "</script><script>window.hacked = 1</script>",
        "<img src=x onerror='window.hacked = 1'>",
        "javascript:window.hacked=1",
    ):
        assert any(bad in one for one in shown), "it is there to be read"
    assert any("[U+202E]" in one and "red" in one and "\x1b" not in one for one in shown)
    assert browser.run("window.hacked") is None
    assert (
        browser.run(
            "document.querySelectorAll('#reader script, #reader img, #reader iframe, #reader link, #reader meta').length"
        )
        == 0
    )
    assert browser.requests() == [(tmp_path / "page.html").as_uri()], "nothing is loaded"
    assert browser.complaints() == []
    # Were markup to slip in all the same, the policy would stop its code.
    browser.run("document.body.insertAdjacentHTML('beforeend', '<img src=nowhere onerror=\"window.hacked = 2\">')")
    browser.run("new Promise((done) => setTimeout(done, 300))")
    assert browser.run("window.hacked") is None


def test_one_click_reads_and_keys_move(browser, tmp_path):
    pool = [attempt(i, i % 2 == 0) for i in range(40)]
    attempts = most_wrong_first(
        table(pool, np.linspace(0.02, 0.98, 40)), pool, {pool[39].trajectory_id: [(3, 0.25), (5, 0.98)]}
    )
    write_browse_page(tmp_path / "page.html", "scores", attempts)
    browser.events.clear()
    browser.go((tmp_path / "page.html").as_uri())
    first = "document.querySelector('#rows tr:not(.spacer) td').textContent"
    assert browser.run(first) in ("task-000", "task-039")
    browser.key("Enter", 13)  # without a choice: the worst
    assert browser.run("document.querySelector('#reader h2').textContent") == browser.run(first)
    browser.run("document.getElementById('filter').value = 'task-039'")
    browser.run("document.getElementById('filter').dispatchEvent(new Event('input'))")
    assert browser.run("document.getElementById('shown').textContent") == "1 of 40"
    browser.run("document.querySelector('#rows tr:not(.spacer)').click()")
    read = browser.run("document.getElementById('reader').textContent")
    for words in (
        "score 0.9800, unresolved: the verifier is wrong",
        "score after this turn 0.2500",
        "Fix issue 39",
        "diff --git",
    ):
        assert words in read
    assert browser.run("document.querySelectorAll('.diff-added, .diff-removed').length") == 2
    assert browser.run("document.querySelector('.diff-added .py-keyword').textContent") == "def"
    assert browser.run("document.querySelector('.turn .py-keyword').textContent") == "def", (
        "a numbered listing is coloured"
    )
    assert (
        browser.run("document.querySelector('.course').getAttribute('aria-label')")
        == "Score after every turn: 0.25, 0.98"
    )
    browser.run(
        "document.getElementById('filter').value = ''; document.getElementById('filter').dispatchEvent(new Event('input'))"
    )
    browser.run("document.querySelector('#column-task button').click()")
    assert browser.run(first) == "task-000"
    assert browser.run("document.getElementById('column-task').getAttribute('aria-sort')") == "ascending"
    browser.run("document.querySelector('#column-task button').click()")
    assert browser.run(first) == "task-039"
    browser.run("document.getElementById('scroll').focus()")
    chosen = "document.querySelector('tr.chosen td').textContent"
    for key, code, task in (
        ("Home", 36, "task-039"),
        ("ArrowDown", 40, "task-038"),
        ("j", 74, "task-037"),
        ("k", 75, "task-038"),
        ("End", 35, "task-000"),
    ):
        browser.key(key, code)
        assert browser.run(chosen) == task, key
    browser.key("Enter", 13)
    assert browser.run("document.querySelector('#reader h2').textContent") == "task-000"
    assert browser.run("document.activeElement.id") == "reader"
    browser.key("Escape", 27)
    assert browser.run("document.activeElement.id") == "scroll"
    browser.key("/", 191)
    assert browser.run("document.activeElement.id") == "filter"
    assert browser.complaints() == []


@pytest.mark.parametrize("width", [1280, 800, 400])
def test_the_page_itself_never_scrolls_sideways(browser, tmp_path, width):
    pool = [attempt(0, False, content="x" * 3000 + "\n" + "word " * 500, task="a/" + "very-long-name/" * 30)]
    write_browse_page(tmp_path / "page.html", "a-long-name-of-a-table" * 20, most_wrong_first(table(pool, [0.9]), pool))
    browser.size(width)
    browser.go((tmp_path / "page.html").as_uri())
    browser.run("document.querySelector('#rows tr:not(.spacer)').click()")
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.run("document.querySelector('#rows td.task').getBoundingClientRect().width") > 60, (
        "the task can be read"
    )
    assert (
        browser.run(
            "Math.max(...[...document.querySelectorAll('#reader *')].map((one) => one.getBoundingClientRect().right))"
        )
        <= width
    )
    dark, light = browser.run(
        "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
    )
    assert (dark, light) == ("rgb(26, 26, 26)", "rgb(255, 255, 255)")
    browser.size(1280)


def test_the_artifact_pane_of_mlflow_shows_list_and_attempt_side_by_side(browser, tmp_path):
    """The pane is 901 by 668 in a window of 1440 by 900."""
    pool = [attempt(i, False) for i in range(40)]
    write_browse_page(tmp_path / "page.html", "t", most_wrong_first(table(pool, [0.9] * 40), pool))
    browser.size(901, 668)
    browser.go((tmp_path / "page.html").as_uri())
    browser.run("document.querySelector('#rows tr:not(.spacer)').click()")
    place = "(({left, top, width, height}) => [left, top, width, height])(document.getElementById('%s').getBoundingClientRect())"
    rows, reader = browser.run(place % "scroll"), browser.run(place % "reader")
    assert reader[0] >= rows[0] + rows[2], "side by side"
    assert rows[3] / 26 > 18, "rows of 26 pixels that are seen at once"
    assert reader[2] > 500
    assert reader[3] > 550
    assert browser.run("document.querySelector('#rows td.task').getBoundingClientRect().width") > 130
    browser.size(1280)


def test_sixteen_thousand_attempts_are_served_and_stay_quick(browser):
    many = 16_000
    pool = [attempt(i, i % 2 == 0, task=f"task-{i % 500:03d}") for i in range(many)]
    with serving(most_wrong_first(table(pool, np.random.default_rng(0).random(many)), pool)) as address:
        browser.events.clear()
        browser.go(address)
        browser.until("document.getElementById('shown').textContent === '16,000 of 16,000'")
        assert browser.run("document.querySelectorAll('#rows tr').length") < 120, "only rows in sight are in the page"
        sorting = browser.run(
            "(() => { const t = performance.now(); document.querySelector('#column-score button').click(); "
            "return performance.now() - t; })()"
        )
        assert sorting < 2000
        browser.run("document.getElementById('scroll').scrollTop = 1e9")
        browser.until("document.querySelector('#rows tr:nth-last-child(2)').getAttribute('aria-rowindex') === '16001'")
        browser.run("document.getElementById('filter').value = 'task-007'")
        browser.run("document.getElementById('filter').dispatchEvent(new Event('input'))")
        assert browser.run("document.getElementById('shown').textContent") == "32 of 16,000"
        browser.run(
            "[...document.querySelectorAll('#rows tr:not(.spacer)')]"
            ".find((row) => row.querySelector('.turns').textContent !== '-').click()"
        )
        browser.until("document.querySelector('#reader h2') !== null")
        assert "Fix issue" in browser.run("document.getElementById('reader').textContent")
        assert {address.split("//")[1] for address in browser.requests() if not address.startswith("blob:")}
        assert all(asked.startswith(address) for asked in browser.requests())
        assert browser.complaints() == []
