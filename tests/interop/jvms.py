"""JVMs that stay and call one main class after the other, so that few tests pay for the start of a JVM and of Flink in it."""

from __future__ import annotations

import atexit
import json
import os
import secrets
import select
import subprocess
import tempfile
import threading
import time
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from tests.waiting import end_of

AT_MOST = 8
"""JVMs that are kept: one or two of the processes that run tests are in tests of Flink at the same time."""

_kept: list[Jvm] = []
"""The one that was used last is at the end. A JVM that is busy is not among them."""
_of_kept = threading.Lock()


class FlinkError(RuntimeError):
    """Fetching, compiling or running Flink failed; the message ends with the tool's own output."""


class Jvm:
    """A JVM with the main class ``Served``.

    It ends when its input does, at the latest with this process.

    Args:
        command: java with its flags and the class path.
        served: the full name of the class ``Served``.
    """

    def __init__(self, command: Sequence[str], served: str) -> None:
        self.command = (*command, served)
        self._package = served.rpartition(".")[0]
        self._jars: list[Path] = []
        self._scratch = tempfile.TemporaryDirectory(prefix="flink-", ignore_cleanup_errors=True)  # Flink leaves files behind
        self._errors = Path(self._scratch.name, "stderr").open("w+b")  # noqa: SIM115 end() closes it
        self._end = secrets.token_hex(16)
        self._process = subprocess.Popen(
            [*command, f"-Djava.io.tmpdir={self._scratch.name}", served, self._end, self._scratch.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            bufsize=0,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests, self._printed = self._process.stdin, self._process.stdout.fileno()

    def is_alive(self) -> bool:
        """Return whether it has not ended by itself."""
        return self._process.poll() is None

    def takes(self, jars: Sequence[Path]) -> bool:
        """Return whether it has jars, or can add them to its class path: no other jar has their packages.

        Only our main classes, whose names differ, share a package. Other classes have versions, and a job has one of them.
        """
        taken = frozenset[str]().union(*map(packages, self._jars)) - {self._package}
        return all(jar in self._jars or not packages(jar) & taken for jar in jars)

    def call(self, main: str, arguments: Sequence[str], what: str, timeout: float, jars: Sequence[Path] = ()) -> str:
        """Call a main class and return its output. Jars are added to the class path, unless they have been added before.

        Raises
        ------
            FlinkError: it threw something, the JVM ended, or it is not done in time. The JVM is of no use any more then.
        """
        before = self._errors.seek(0, os.SEEK_END)
        more = [jar for jar in jars if jar not in self._jars]
        self._jars += more
        request = {"main": main, "arguments": list(arguments), "jars": list(map(str, more))}
        with suppress(BrokenPipeError):  # its output shows the reason
            self._requests.write(json.dumps(request).encode() + b"\n")
        printed, in_time = self._output(time.monotonic() + timeout)
        text, _, code = printed.decode(errors="replace").partition(self._end)
        if code == "0\n":
            return text
        if in_time:
            problem = f"exit code {code.strip() or end_of(self._process)}"
        else:
            self._process.kill()
            problem = f"not done after {timeout:.0f} s"
        self._errors.seek(before)
        raise FlinkError(f"{what}: {problem}\n{tail(text)}\n{tail(self._errors.read())}")

    def _output(self, until: float) -> tuple[bytes, bool]:
        """Return the output of a main class until it or the JVM ends, and whether it ended in time."""
        output, end = b"", self._end.encode()
        while True:
            if not select.select([self._printed], [], [], max(0.0, until - time.monotonic()))[0]:
                return output, False
            part = os.read(self._printed, 65536)
            output += part
            if not part or (output.endswith(b"\n") and end in output[-len(end) - 2 :]):
                return output, True

    def end(self) -> None:
        """Kill the JVM, and delete Flink's leftovers. Native threads of ForSt would keep it for ever at an end of its own."""
        self._process.kill()
        self._process.wait()
        with suppress(BrokenPipeError):
            self._requests.close()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._errors.close()
        self._scratch.cleanup()


@cache
def packages(jar: Path) -> frozenset[str]:
    """Return the packages of the classes of a jar."""
    with zipfile.ZipFile(jar) as content:
        classes = [name for name in content.namelist() if name.endswith(".class")]
    return frozenset(name.rpartition("/")[0].replace("/", ".") for name in classes)


def call(
    command: Sequence[str],
    served: str,
    main: str,
    arguments: Sequence[str],
    what: str,
    timeout: float,
    jars: Sequence[Path] = (),
) -> str:
    """Call a main class in a JVM with this command that is kept, and return its output.

    Args:
        jars: what its class path has beside that of the command.
        command, served, main, arguments, what, timeout: see :class:`Jvm`.

    Raises
    ------
        FlinkError: see :meth:`Jvm.call`.
    """
    with _of_kept:
        for jvm in [jvm for jvm in _kept if not jvm.is_alive()]:
            _kept.remove(jvm)
            jvm.end()
        fitting = [jvm for jvm in _kept if jvm.command == (*command, served) and jvm.takes(jars)]
        if fitting:
            _kept.remove(fitting[-1])
        while not fitting and len(_kept) >= AT_MOST:
            least_useful = _least_useful()
            _kept.remove(least_useful)
            least_useful.end()
    jvm = fitting[-1] if fitting else Jvm(command, served)
    done = False
    try:
        printed = jvm.call(main, arguments, what, timeout, jars)
        done = True
    finally:
        if done:
            _kept.append(jvm)
        else:
            jvm.end()
    return printed


def _least_useful() -> Jvm:
    """Return the JVM to end: one whose command is also that of a JVM used later, else the JVM used first."""
    commands = [jvm.command for jvm in _kept]
    return next((jvm for i, jvm in enumerate(_kept) if jvm.command in commands[i + 1 :]), _kept[0])


def call_once(command: Sequence[str], served: str, main: str, arguments: Sequence[str], what: str, timeout: float) -> str:
    """Call a main class in a JVM of its own, and return its output.

    Args:
        command, served, main, arguments, what, timeout: see :class:`Jvm`.

    Raises
    ------
        FlinkError: see :meth:`Jvm.call`.
    """
    jvm = Jvm(command, served)
    try:
        return jvm.call(main, arguments, what, timeout)
    finally:
        jvm.end()


@atexit.register
def end_all() -> None:
    """End all JVMs that are kept."""
    while _kept:
        _kept.pop().end()


def tail(output: str | bytes | None, characters: int = 8000) -> str:
    """Return the end of a tool's output."""
    text = output.decode(errors="replace") if isinstance(output, bytes) else output or ""
    return text[-characters:]
