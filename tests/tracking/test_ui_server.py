"""MLflow's page, which leads to the runs; with an application of one page in MLflow's place."""

import asyncio
from typing import Any

from rmlab.tracking.ui_server import opened_at, script

PAGE = b"<!doctype html><html><head><title>MLflow</title></head></html>"
START = "/experiments/7/runs?workflowType=machine_learning"


async def application(scope: Any, receive: Any, send: Any) -> None:
    names = {name for name, _ in scope["headers"]}
    status = 304 if b"if-none-match" in names else 200
    headers = [(b"content-type", b"text/html"), (b"content-length", str(len(PAGE)).encode()), (b"etag", b"abc")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": PAGE[:30], "more_body": True})
    await send({"type": "http.response.body", "body": PAGE[30:]})


def answer(
    path: str, method: str = "GET", headers: tuple[tuple[bytes, bytes], ...] = ()
) -> tuple[int, dict[bytes, bytes], bytes]:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request"}

    scope = {"type": "http", "method": method, "path": path, "headers": list(headers)}
    asyncio.run(opened_at(application, START)(scope, receive, send))
    return sent[0]["status"], dict(sent[0]["headers"]), b"".join(message["body"] for message in sent[1:])


def test_the_page_begins_with_the_script_whatever_the_browser_has_kept() -> None:
    for headers in ((), ((b"if-none-match", b"abc"), (b"accept-encoding", b"gzip"))):
        status, said, body = answer("/", headers=headers)
        assert status == 200
        assert body.startswith(b"<!doctype html><html><head><script>")
        assert body.endswith(PAGE[27:])
        assert int(said[b"content-length"]) == len(body)
        assert b"etag" not in said, "plain MLflow at this address must not take it for its own"


def test_everything_else_is_mlflow_s_own() -> None:
    assert answer("/ajax-api/2.0/mlflow/runs/search", "POST")[2] == PAGE
    assert answer("/health")[2] == PAGE
    assert answer("/", headers=())[2] != PAGE


def test_the_script_leads_to_the_runs_and_keeps_the_assistant_closed() -> None:
    code = script(START)
    assert f'location.replace("#{START}")' in code
    assert "viewStateShareKey=rmlab-table" in code
    assert "localStorage.setItem(\"mlflow.assistant.fab.autoOpenedOnFirstLoad_v1\", 'true')" in code
    assert "START" not in code.replace(START, "")
    assert 'localStorage.setItem("mlflow.workflowType_v1", \'"machine_learning"\')' in code
