"""A page in Chromium, driven by the DevTools protocol over pipes."""

from __future__ import annotations

import json
import os
import subprocess
from base64 import b64decode
from pathlib import Path
from typing import Any, Final

from tests.waiting import wait_until

_SETTLED: Final = "!!document.querySelector('main h1') && !document.querySelector('main[aria-busy]')"
_CLICK: Final = """(text => {
    const link = [...document.querySelectorAll('main a, nav a')].find(link => link.textContent === text);
    if (link) link.click();
    return !!link;
})"""


class Page:
    """A page in a browser of its own.

    Parameters
    ----------
    directory
        A directory for the profile of the browser.
    """

    def __init__(self, directory: Path) -> None:
        read_by_browser, self._written = os.pipe()
        self._answers, written_by_browser = os.pipe()
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe"]
        command = ["chromium", *flags, f"--user-data-dir={directory}"]
        pipes = (read_by_browser, written_by_browser)
        renamed = 'exec 3<&"$0" 4>&"$1"; shift; exec "$@"'
        self._process = subprocess.Popen(
            ["bash", "-c", renamed, *map(str, pipes), *command],
            pass_fds=pipes,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for pipe in pipes:
            os.close(pipe)
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Page:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._written)
        os.close(self._answers)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol and return its result. Events that come before it are kept."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._written, json.dumps(message).encode() + b"\0")
        while (answer := self._read()).get("id") != self._number:
            self.events.append(answer)
        assert "error" not in answer, answer
        return dict(answer["result"])

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            data = os.read(self._answers, 1 << 16)
            assert data, "the browser ended"
            self._buffer += data
        message, _, self._buffer = self._buffer.partition(b"\0")
        return dict(json.loads(message))

    def value(self, script: str) -> Any:
        """Return the value of an expression of JavaScript in the page."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def open(self, address: str) -> None:
        """Open an address and wait for its view."""
        self.call("Page.navigate", url=address)
        self._settle()

    def view(self, fragment: str) -> None:
        """Show another view of the page."""
        self.value(f"document.querySelector('main').setAttribute('aria-busy', 'true'); location.hash = {json.dumps(fragment)}")
        self._settle()

    def click(self, text: str) -> None:
        """Click a link with a text."""
        before = self.value("location.hash")
        assert self.value(f"{_CLICK}({json.dumps(text)})"), f"no link {text!r}"
        wait_until(lambda: self.value("location.hash") != before, f"another view after a click on {text!r}")
        self._settle()

    def _settle(self) -> None:
        wait_until(lambda: bool(self.value(_SETTLED)), "a view of the page")

    def shape(self, width: int, *, dark: bool = False) -> None:
        """Give the window a width, and the dark or the light scheme."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def picture(self) -> bytes:
        """Return a picture of the window, as PNG."""
        return b64decode(self.call("Page.captureScreenshot")["data"])

    @property
    def requests(self) -> list[str]:
        """The addresses of all requests."""
        return [event["params"]["request"]["url"] for event in self.events if event["method"] == "Network.requestWillBeSent"]

    @property
    def alarms(self) -> list[dict[str, Any]]:
        """Dialogs, uncaught exceptions, and violations of the content security policy."""
        kinds = ("Page.javascriptDialogOpening", "Runtime.exceptionThrown", "Log.entryAdded")
        return [event["params"] for event in self.events if event["method"] in kinds]
