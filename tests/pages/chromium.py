"""A headless Chromium that tests drive through its debugging pipe; the standard library is enough."""

import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.waiting import PATIENCE

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def find() -> str | None:
    """The browser's command; None where there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Chromium:
    """One page. `events` holds what the browser told: requests, console messages, exceptions."""

    def __init__(self, width: int = 1280, height: int = 800):
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        read_child, self.out = os.pipe()
        self.inp, write_child = os.pipe()
        options = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--remote-debugging-pipe",
            f"--user-data-dir={self.folder.name}",
            f"--window-size={width},{height}",
        ]
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec "$0" "$@" 3<&{read_child} 4>&{write_child}', str(find()), *options, "about:blank"],
            pass_fds=(read_child, write_child),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
        )
        os.close(read_child)
        os.close(write_child)
        self.number = 0
        self.buffer = b""
        self.session: str | None = None
        self.events: list[dict[str, Any]] = []
        target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        self.number += 1
        message: dict[str, Any] = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            found = self._next()
            if found.get("id") == self.number:
                assert "error" not in found, found["error"]
                return dict(found["result"])
            self.events.append(found)

    def _next(self) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE
        while b"\0" not in self.buffer:
            assert select.select([self.inp], [], [], max(deadline - time.monotonic(), 0))[0], (
                "the browser does not answer"
            )
            read = os.read(self.inp, 1 << 20)
            assert read, "the browser has ended"
            self.buffer += read
        message, self.buffer = self.buffer.split(b"\0", 1)
        return dict(json.loads(message))

    def go(self, address: str) -> None:
        """Opens a page and waits until it has loaded."""
        self.call("Page.navigate", url=address)
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    def run(self, code: str) -> Any:
        """The value of an expression in the page; a promise is waited for."""
        found = self.call("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def until(self, code: str) -> None:
        """Waits until an expression is true."""
        deadline = time.monotonic() + PATIENCE
        while not self.run(code):
            assert time.monotonic() < deadline, f"never true: {code}"
            time.sleep(0.05)

    def key(self, key: str, code: int = 0) -> None:
        """Presses a key, as a user does."""
        text = key if len(key) == 1 else "\r" if key == "Enter" else ""
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, text=text, windowsVirtualKeyCode=code)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def size(self, width: int, height: int = 800) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def picture(self, path: Path) -> None:
        import base64

        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def complaints(self) -> list[str]:
        """Exceptions and errors that the page had."""
        self.run("0")
        found = [
            str(e["params"]["exceptionDetails"].get("exception", {}).get("description"))
            for e in self.events
            if e["method"] == "Runtime.exceptionThrown"
        ]
        return found + [
            e["params"]["entry"]["text"]
            for e in self.events
            if e["method"] == "Log.entryAdded" and e["params"]["entry"]["level"] == "error"
        ]

    def requests(self) -> list[str]:
        """Addresses that the page asked for, data aside."""
        addresses = [e["params"]["request"]["url"] for e in self.events if e["method"] == "Network.requestWillBeSent"]
        return [address for address in addresses if not address.startswith("data:")]

    def close(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.inp)
        os.close(self.out)
        self.folder.cleanup()
