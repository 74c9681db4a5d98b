"""Attempts to browse, among them some whose content tries to act in the page, and a server for them."""

import threading
from contextlib import contextmanager

import numpy as np

from rmlab.pages.browse import browse_server, most_wrong_first
from rmlab.scores.scores import Scores
from rmlab.trajectories.record import Message, Trajectory

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
    return pool, most_wrong_first(table(pool, [0.9] * len(pool)), pool, {pool[0].trajectory_id: [(3, 0.25), (5, 0.9)]})
