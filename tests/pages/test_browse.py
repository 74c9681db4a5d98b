"""The reader in a real browser: sorting, keys, one click to turns and patch, and nothing that a trajectory holds can act."""

import json
import socket
import threading
import urllib.error
import urllib.request
from contextlib import contextmanager

import numpy as np
import pytest

from rmlab.commands.browse import browse
from rmlab.errors import DataError, UsageError
from rmlab.pages import browse as pages
from rmlab.pages.browse import browse_page, browse_server, join, shortened, write_browse_page
from rmlab.pages.html import embedded_json, text
from rmlab.scores.scores import Scores
from rmlab.scores.writing import write_score_table
from rmlab.trajectories.record import Message, Trajectory
from rmlab.trajectories.store import write_trajectories
from rmlab.verifiers.per_turn import write_turn_scores
from tests.pages import chromium
from tests.waiting import PATIENCE

HOSTILE = [
    "</script><script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 1'>",
    "<!--<script>",
    "]]>",
    "\u2028window.hacked=1",
    "javascript:window.hacked=1",
    "<svg onload=window.hacked=1>",
    "&lt;b&gt;",
    "\x00\x1b[31mred\x1b[0m\u202egnp.exe",
    "<iframe src=//example.com>",
    "```python\n</pre><script>window.hacked=1</script>\n```",
    "<link rel=stylesheet href=http://example.com/x.css>",
    "<meta http-equiv=refresh content='0;url=http://example.com'>",
]
PATCH = """diff --git a/x.py b/x.py
@@ -1 +1 @@
-def f(): return '</script>'
+def f(): return "<img src=x onerror=window.hacked=1>"  # note
"""


def attempt(number, resolved, *, content="run", patch=PATCH, task=None, policy="hand"):
    messages = (
        Message("user", f"Fix issue {number}\n  1\tdef f():\n  2\t    return {number}"),
        Message("assistant", content),
        Message("user", "it ran"),
        Message("assistant", "submit"),
        Message("user", "done"),
    )
    return Trajectory(
        task_id=task or f"task-{number:03d}",
        cluster=f"c{number}",
        source="hand",
        policy=policy,
        attempt=0,
        messages=messages,
        patch=patch,
        exit_status="submitted",
        resolved=resolved,
    )


def table(trajectories, score):
    return Scores.of(
        [t.task_id for t in trajectories],
        score,
        [np.nan if t.resolved is None else t.resolved for t in trajectories],
        trajectory_id=[t.trajectory_id for t in trajectories],
        policy=[t.policy for t in trajectories],
    )


@pytest.fixture(scope="module")
def browser():
    if chromium.find() is None:
        pytest.skip(f"no browser is here: none of {', '.join(chromium.NAMES)}")
    page = chromium.Chromium()
    yield page
    page.close()


@contextmanager
def serving(attempts):
    with browse_server("scores", attempts) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def hostile_attempts():
    pool = [attempt(i, False, content=bad, task=f"task {bad}", policy=bad, patch=bad) for i, bad in enumerate(HOSTILE)]
    return pool, join(table(pool, [0.9] * len(pool)), pool, {pool[0].trajectory_id: [(3, 0.25), (5, 0.9)]})


def test_attempts_are_ordered_by_how_wrong_the_score_is():
    pool = [attempt(0, True), attempt(1, False), attempt(2, None), attempt(3, True), attempt(4, False)]
    found = join(table(pool, [0.7, 0.95, 0.5, 0.1, np.nan]), pool)
    assert found.columns()["task"] == ["task-001", "task-003", "task-000", "task-002", "task-004"]
    assert found.mistakes == 2
    assert found.columns(1, 2)["score"] == [0.1, 0.7]
    assert found.columns()["label"] == [0, 1, 1, None, 0]
    with pytest.raises(DataError, match="none of the 1 scored attempts is among these 1 trajectories"):
        join(table(pool[:1], [0.5]), pool[1:2])
    with pytest.raises(DataError, match="1 of 1 scores name no trajectory_id"):
        join(Scores.of(["t"], [0.5], [1]), pool)
    assert found.telling_columns() == ["task", "score", "label", "error", "turns"], (
        "one policy, one attempt a task, no token counts"
    )
    part = join(table(pool, [0.5] * 5), pool[:2])
    assert (part.without_trajectory, part.columns()["attempt"].count(None)) == (3, 3)


def test_a_cut_message_says_how_much_is_left_out():
    assert shortened("a" * 50 + "b" * 50, 10) == "aaaaa\n[90 characters are left out here]\nbbbbb"
    assert shortened("abc", 10) == "abc"


def test_markup_and_json_of_any_text_are_inert():
    for bad in HOSTILE:
        assert json.loads(embedded_json({"x": bad})) == {"x": bad}
        assert not set("<>&\u2028\u2029") & set(embedded_json({"x": bad}))
        assert "<" not in text(bad)
    _, attempts = hostile_attempts()
    page = browse_page("<script>window.hacked=1</script>", attempts)
    assert page.count("<script") == 4  # about, rows, details and the reader's own code
    assert "default-src &#x27;none&#x27;" in page


def test_a_file_is_at_most_ten_megabytes_and_says_what_it_holds(monkeypatch):
    pool = [attempt(i, False, content="x" * 30_000) for i in range(260)]
    attempts = join(table(pool, [0.9] * 260), pool)
    page = browse_page("scores", attempts)
    assert len(page.encode()) <= 10_000_000
    assert "turns of the 200 that the score is most wrong about are in this file" in page
    monkeypatch.setattr(pages, "LARGEST", 2_000_000)  # whole messages do not fit: they are cut, and say so
    page = browse_page("scores", attempts)
    assert len(page.encode()) <= 2_000_000
    assert "turns of the 200 that" in page
    assert "characters are left out here" in page
    monkeypatch.setattr(pages, "LARGEST", 300_000)
    page = browse_page("scores", attempts)
    assert len(page.encode()) <= 300_000
    assert "turns of the 200 that" not in page
    monkeypatch.setattr(pages, "LARGEST", 1000)
    with pytest.raises(DataError, match="the table of 260 attempts alone makes a page of more than"):
        browse_page("scores", attempts)


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
    attempts = join(table(pool, np.linspace(0.02, 0.98, 40)), pool, {pool[39].trajectory_id: [(3, 0.25), (5, 0.98)]})
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
    write_browse_page(tmp_path / "page.html", "a-long-name-of-a-table" * 20, join(table(pool, [0.9]), pool))
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
    write_browse_page(tmp_path / "page.html", "t", join(table(pool, [0.9] * 40), pool))
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
    pool = [attempt(i, i % 2 == 0) for i in range(200)]
    many = 16_000
    score = np.random.default_rng(0).random(many)
    scores = Scores.of(
        [f"task-{i % 500:03d}" for i in range(many)],
        score,
        np.arange(many) % 2,
        trajectory_id=[pool[i].trajectory_id if i < 200 else f"id-{i}" for i in range(many)],
    )
    with serving(join(scores, pool)) as address:
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
        assert "Fix issue 7" in browser.run("document.getElementById('reader').textContent")
        assert {address.split("//")[1] for address in browser.requests() if not address.startswith("blob:")}
        assert all(asked.startswith(address) for asked in browser.requests())
        assert browser.complaints() == []


def test_the_server_answers_this_machine_only_and_nothing_else():
    pool, attempts = hostile_attempts()

    def ask(path, host=None):
        request = urllib.request.Request(address + path, headers={} if host is None else {"Host": host})
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return answer.status, dict(answer.headers), answer.read()
        except urllib.error.HTTPError as error:
            return error.code, {}, b""

    with serving(attempts) as address:
        assert address.startswith("http://127.0.0.1:")
        status, headers, page = ask("/")
        assert status == 200
        assert headers["Content-Security-Policy"].startswith("default-src 'none'")
        assert b"window.hacked" not in page, "the page holds no trajectory"
        assert ask("/", "example.com")[0] == 403
        assert json.loads(ask("/rows?from=0")[2])["id"] == attempts.columns()["id"]
        assert json.loads(ask("/rows?from=99999")[2])["id"] == []
        found = json.loads(ask(f"/attempt?id={pool[0].trajectory_id}")[2])
        assert found["turns"] == [[3, 0.25], [5, 0.9]]
        for nowhere in (
            "/rows",
            "/rows?from=-1",
            "/rows?from=x",
            "/attempt",
            "/attempt?id=nope",
            "/../../etc/passwd",
            "/favicon.ico",
        ):
            assert ask(nowhere)[0] == 404, nowhere
        host, _, port = address.removeprefix("http://").rstrip("/").partition(":")
        with socket.create_connection((host, int(port)), timeout=PATIENCE) as raw:
            raw.sendall(f"GET http://[::1/ HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
            assert raw.recv(12) == b"HTTP/1.1 400"


def test_the_command_writes_a_page_and_refuses_what_does_not_fit(tmp_path, capsys):
    pool = [attempt(i, i % 2 == 0) for i in range(6)]
    write_trajectories(tmp_path / "pool.parquet", pool)
    write_score_table(tmp_path / "scores.csv", table(pool, np.linspace(0, 1, 6)))
    browse(tmp_path / "scores.csv", tmp_path / "pool.parquet", tmp_path / "page.html")
    assert "page.html: 6 attempts" in capsys.readouterr().out
    write_turn_scores(tmp_path / "scores.turns.parquet", {pool[0].trajectory_id: [(3, 0.5), (5, 0.0)]})
    browse(tmp_path / "scores.csv", tmp_path / "pool.parquet", tmp_path / "page.html")
    assert "[3,0.5]" in (tmp_path / "page.html").read_text()
    write_turn_scores(tmp_path / "scores.turns.parquet", {pool[0].trajectory_id: [(3, 0.5), (5, 0.7)]})
    with pytest.raises(DataError, match="these are turns of another scoring"):
        browse(tmp_path / "scores.csv", tmp_path / "pool.parquet", tmp_path / "page.html")
    with pytest.raises(UsageError, match=r"name a page to write with -o PAGE\.html, or ask for --serve"):
        browse(tmp_path / "scores.csv", tmp_path / "pool.parquet")
    with pytest.raises(UsageError, match="-o and --serve: choose one"):
        browse(tmp_path / "scores.csv", tmp_path / "pool.parquet", tmp_path / "page.html", serve=True)
    with pytest.raises(UsageError, match="--port belongs to --serve"):
        browse(tmp_path / "scores.csv", tmp_path / "pool.parquet", tmp_path / "page.html", port=5)
    (tmp_path / "scores.turns.parquet").unlink()
    with pytest.raises(UsageError, match="--port 70000: a port is a number"):
        browse(tmp_path / "scores.csv", tmp_path / "pool.parquet", serve=True, port=70000)
