"""Reused JVMs: output, failures, and their end together with the parent process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.interop import flink, flink_jars, jvms
from tests.waiting import end_of

pytestmark = pytest.mark.interop

VERSION = "2.3.0"
KILLED = f"""
import os, signal
from tests.interop import flink, jvms
flink.list_states({VERSION!r}, [])
(jvm,) = jvms._kept
print(jvm._process.pid, jvm._scratch.name, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def _others(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """JVMs of other modules stay, and are not seen. All classes are compiled before: that takes a JVM, too."""
    flink.prepare()
    monkeypatch.setattr(jvms, "_kept", [])
    yield
    jvms.end_all()


def kept() -> list[int]:
    return [jvm._process.pid for jvm in jvms._kept]


def is_running(pid: str) -> bool:
    """Return False for a process that has ended, even if its parent has not asked for its exit code yet."""
    try:
        return Path("/proc", pid, "cmdline").read_bytes() != b""
    except FileNotFoundError:
        return False


def test_calls_share_a_jvm_until_one_fails(tmp_path: Path) -> None:
    assert flink.list_states(VERSION, []) == []
    (first,) = kept()
    assert flink.list_states(VERSION, []) == []
    assert kept() == [first]
    failing = r"ListStates on Flink 2\.3\.0: exit code 1\n(.|\n)*NoSuchFileException: .*_metadata\n\tat (.|\n)*ListStates\.main"
    with pytest.raises(flink.FlinkError, match=failing):
        flink.list_states(VERSION, [tmp_path])
    assert kept() == []
    assert flink.list_states(VERSION, []) == []
    (second,) = kept()
    os.kill(second, signal.SIGKILL)
    end_of(jvms._kept[0]._process)
    assert flink.list_states(VERSION, []) == []
    assert kept() != [second]
    with pytest.raises(flink.FlinkError, match=r"Compatibility on Flink 2\.3\.0: not done after 0 s"):
        flink.run(VERSION, "Compatibility", ["no-file", "no-file"], timeout=0)


def test_the_one_that_was_used_first_ends_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jvms, "AT_MOST", 2)
    found = []
    for version in ("2.3.0", "1.20.5", "2.3.0", "2.0.2"):
        assert flink.list_states(version, []) == []
        found.append(kept())
    ((a,), (_, b), (*_, c), d) = found
    assert found == [[a], [a, b], [b, a], [a, d[1]]]
    assert c == a


@pytest.mark.parametrize(("commands", "place"), [("abcd", 0), ("abcb", 1), ("abbacc", 0), ("abcc", 2)])
def test_one_of_two_with_the_same_command_ends_before_others(commands: str, place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = [SimpleNamespace(command=(command,)) for command in commands]
    with monkeypatch.context() as context:
        context.setattr(jvms, "_kept", kept)
        assert jvms._least_useful() is kept[place]


def test_a_jvm_with_other_classes_of_a_package_does_not_get_more_of_them() -> None:
    def restored(package: str, field: str) -> int:
        """Fill a state with a value of a generated class, and return the JVM that did it."""
        jar = flink.generated_classes(
            VERSION, package, {"Row": f"package {package};\npublic class Row {{ public int {field}; }}"}
        )
        state = {"name": "row", "kind": "VALUE", "key_type": "STRING", "value_type": f"POJO<{package}.Row>", "ttl": False}
        rows = {**state, "entries": [{"key": "ada", "value": {field: 1}}]}
        job = flink.request([{"uid": "rows", "key_type": "STRING", "states": [rows]}], filled=True)
        (answer,) = flink.restore(VERSION, [job], class_path=[jar])
        assert "error" not in answer, answer["error"]
        return kept()[-1]

    first = restored("one", "a")
    assert restored("two", "a") == first
    second = restored("one", "b")
    assert second != first
    assert [restored("one", "a"), restored("two", "a"), restored("one", "b")] == [first, first, second]


def test_what_the_compiler_refuses_is_shown() -> None:
    with pytest.raises(flink.FlinkError, match=r"compiling for Flink 2\.3\.0: exit code 1\n(.|\n)*Row\.java:1: error: "):
        flink.generated_classes(VERSION, "refused", {"Row": "public class Row { int }"})


def test_jvms_end_with_their_process() -> None:
    environment = {**os.environ, "PYTHONPATH": str(flink_jars.ROOT)}
    done = subprocess.run([sys.executable, "-c", KILLED], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (-signal.SIGKILL, "")
    pid, scratch = done.stdout.split()
    until = time.monotonic() + 300
    while is_running(pid) or Path(scratch).exists():
        assert time.monotonic() < until
        time.sleep(0.05)
