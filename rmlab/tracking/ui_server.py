"""The process that serves the MLflow UI over a store: MLflow's own application, opened as model training.

Its bare address leads to MLflow's home page, which is about agents and traces, and its first visit opens an assistant over a
third of the window. A few lines of script in the one page that the application is lead to the runs and leave that closed.

    python -m rmlab.tracking.ui_server DATABASE_URL ARTIFACTS_URI PORT START
"""

import json
import os
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from rmlab.tracking.views import TABLE

HOST = "127.0.0.1"
TRAINING = "workflowType=machine_learning"
"""Of an address: without it the UI takes an experiment for one of agents and traces."""
TABLE_VIEW = f"{TRAINING}&viewStateShareKey={TABLE}"
ASSISTANT_SHOWN = "mlflow.assistant.fab.autoOpenedOnFirstLoad_v1"
"""What the UI keeps in the browser once it has opened its assistant by itself."""
WORKFLOW = "mlflow.workflowType_v1"
"""What the UI keeps in the browser of what it is used for. It goes by that on pages whose address does not say it, such as the one that
compares runs, and takes agents and traces by itself."""
ASKED_BEFORE = (b"if-none-match", b"if-modified-since", b"accept-encoding")

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]


SCRIPT = """
localStorage.setItem(ASSISTANT_SHOWN, 'true');
if (localStorage.getItem(WORKFLOW) === null) localStorage.setItem(WORKFLOW, '"machine_learning"');
if (['', '#', '#/'].includes(location.hash)) location.replace(START);
document.addEventListener('click', (event) => {
  const link = event.target.closest?.('a[href]');
  const experiment = link && /#\\/experiments\\/([1-9]\\d*)(\\/runs)?(\\?workflowType=\\w+)?$/.exec(link.href);
  if (!experiment || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  location.hash = `#/experiments/${experiment[1]}/runs?VIEW`;
}, true);
"""
"""A link to an experiment as such opens its runs with the prepared columns, as the addresses do that `rmlab ui` prints."""


def script(start: str) -> str:
    """What the page does before anything else. start: the part of an address after #, of where the bare address leads."""
    told = {
        "ASSISTANT_SHOWN": json.dumps(ASSISTANT_SHOWN),
        "WORKFLOW": json.dumps(WORKFLOW),
        "START": json.dumps(f"#{start}"),
        "VIEW": TABLE_VIEW,
    }
    code = SCRIPT
    for name, value in told.items():
        code = code.replace(name, value)
    return f"<script>{code}</script>"


def opened_at(application: Application, start: str) -> Application:
    """The application, whose page begins with `script`."""
    added = script(start).encode()

    async def serve(scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET" or scope["path"] != "/":
            await application(scope, receive, send)
            return
        scope["headers"] = [(name, value) for name, value in scope["headers"] if name not in ASKED_BEFORE]
        begun: Message = {}
        body = b""

        async def collect(message: Message) -> None:
            nonlocal begun, body
            if message["type"] == "http.response.start":
                begun = message
                return
            body += message.get("body", b"")
            if message.get("more_body"):
                return
            whole = body.replace(b"<head>", b"<head>" + added, 1)
            kept = [(name, value) for name, value in begun["headers"] if name not in (b"content-length", b"etag")]
            await send({**begun, "headers": [*kept, (b"content-length", str(len(whole)).encode())]})
            await send({"type": "http.response.body", "body": whole})

        await application(scope, receive, collect)

    return serve


def main(database: str, artifacts: str, port: str, start: str) -> None:
    """Serves until a signal ends it."""
    import uvicorn  # before MLflow's application, which takes its checks of the host's name by it
    from mlflow.environment_variables import _MLFLOW_SGI_NAME
    from mlflow.server import constants

    os.environ |= {
        constants.BACKEND_STORE_URI_ENV_VAR: database,
        constants.REGISTRY_STORE_URI_ENV_VAR: database,
        constants.ARTIFACT_ROOT_ENV_VAR: artifacts,
        _MLFLOW_SGI_NAME.name: "uvicorn",
    }
    from mlflow.server.fastapi_app import app

    uvicorn.run(opened_at(app, start), host=HOST, port=int(port), log_level="warning", access_log=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
