"""What the page of attempts holds: their order, its size, the command that writes it, and the server that answers this machine alone."""

import json
import socket
import urllib.error
import urllib.request

import numpy as np
import pytest

from rmlab.commands.browse import browse, read
from rmlab.errors import DataError, UsageError
from rmlab.pages import browse as pages
from rmlab.pages.browse import browse_page, most_wrong_first, shortened
from rmlab.pages.html import embedded_json, text
from rmlab.scores.writing import write_score_table
from rmlab.trajectories.store import write_trajectories
from rmlab.verifiers.per_turn import write_turn_scores
from tests.pages.browsing import HOSTILE, attempt, hostile_attempts, serving, table
from tests.waiting import PATIENCE


def test_attempts_are_ordered_by_how_wrong_the_score_is():
    pool = [attempt(0, True), attempt(1, False), attempt(2, None), attempt(3, True), attempt(4, False)]
    found = most_wrong_first(table(pool, [0.7, 0.95, 0.5, 0.1, np.nan]), pool)
    assert found.columns()["task"] == ["task-001", "task-003", "task-000", "task-002", "task-004"]
    assert found.mistakes == 2
    assert found.columns(1, 2)["score"] == [0.1, 0.7]
    assert found.columns()["label"] == [0, 1, 1, None, 0]
    assert found.telling_columns() == ["task", "score", "label", "error", "turns"], (
        "one policy, one attempt a task, no token counts"
    )


def test_a_table_is_joined_with_its_set_as_evaluate_joins_it(tmp_path, capsys):
    """By trajectory_id, or by task and policy; what does not match is left out and counted, on the terminal and on the page."""
    pool = [attempt(0, True), attempt(1, False), attempt(2, None)]
    write_trajectories(tmp_path / "pool.parquet", pool)
    write_score_table(tmp_path / "scores.parquet", table([*pool[:2], attempt(7, True)], [0.7, 0.95, 0.5]))
    browse(tmp_path / "scores.parquet", tmp_path / "pool.parquet", out=tmp_path / "page.html")
    said, page = capsys.readouterr().out, (tmp_path / "page.html").read_text(encoding="utf-8")
    for words in ("2 rows by trajectory_id", "1 row of the table left out", "1 trajectory of the set without a row"):
        assert words in said
        assert words in page
    (tmp_path / "named.csv").write_text(
        "task_id,policy,score\ntask-000,hand,0.2\ntask-001,hand,0.3\n", encoding="utf-8"
    )
    found = read(tmp_path / "named.csv", tmp_path / "pool.parquet", None)
    assert found.columns()["task"] == ["task-000", "task-001"]
    assert found.columns()["label"] == [1, 0], "labels are the set's"
    write_score_table(tmp_path / "others.parquet", table([attempt(7, True)], [0.5]))
    with pytest.raises(DataError, match=r"none of the 1 row of .*others\.parquet is in .*pool\.parquet"):
        read(tmp_path / "others.parquet", tmp_path / "pool.parquet", None)


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
    attempts = most_wrong_first(table(pool, [0.9] * 260), pool)
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
    with pytest.raises(DataError, match="these turns belong to another scoring"):
        browse(tmp_path / "scores.csv", tmp_path / "pool.parquet", tmp_path / "page.html")
    with pytest.raises(UsageError, match=r"name a page to write with -o PAGE\.html, or use --serve"):
        browse(tmp_path / "scores.csv", tmp_path / "pool.parquet")
    with pytest.raises(UsageError, match="-o and --serve exclude each other: choose one"):
        browse(tmp_path / "scores.csv", tmp_path / "pool.parquet", tmp_path / "page.html", serve=True)
    with pytest.raises(UsageError, match="--port needs --serve"):
        browse(tmp_path / "scores.csv", tmp_path / "pool.parquet", tmp_path / "page.html", port=5)
    (tmp_path / "scores.turns.parquet").unlink()
    with pytest.raises(UsageError, match="--port 70000: must be a number"):
        browse(tmp_path / "scores.csv", tmp_path / "pool.parquet", serve=True, port=70000)
