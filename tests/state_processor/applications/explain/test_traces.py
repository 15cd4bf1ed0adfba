"""Traces in logs, in text and in JSON."""

from __future__ import annotations

import json

import pytest

from state_processor.applications.explain.traces import Throwable, read_log

TRACE = """java.lang.RuntimeException: Error while getting state
\tat org.apache.flink.runtime.state.heap.HeapKeyedStateBackend.create(Backend.java:1) ~[flink-dist-1.19.3.jar:1.19.3]
\tat com.acme.Totals$Function.open(Totals.java:41) ~[job.jar:?]
\tat java.base/java.lang.Thread.run(Thread.java:840) [?:?]
Caused by: org.apache.flink.util.StateMigrationException: The new state serializer
is not compatible.
\tat org.apache.flink.runtime.state.Foo.bar(Foo.java:1)
\t... 17 more
"""
ENTRY = "2026-01-02 03:04:05,678 WARN  org.apache.flink.runtime.taskmanager.Task [] - Totals (1/2)#0 (a_b_0_0) switched to FAILED"
ROOT = Throwable(
    "org.apache.flink.util.StateMigrationException",
    "The new state serializer\nis not compatible.",
    ("org.apache.flink.runtime.state.Foo.bar",),
)


def test_causes_and_frames_are_read() -> None:
    log = read_log(f"{ENTRY}\n{TRACE}2026-01-02 03:04:06,000 INFO  x [] - next")
    (trace,) = log.traces
    assert (trace.entry, trace.line) == (ENTRY, 2)
    assert trace.throwables[-1] == ROOT
    assert trace.throwables[0].frames[1:] == ("com.acme.Totals$Function.open", "java.lang.Thread.run")
    assert (log.flink, log.backend) == ("1.19", "hashmap")


REST = json.dumps({"root-exception": TRACE, "timestamp": 1, "exceptionHistory": {"entries": [{"stacktrace": TRACE}]}})
LINES = "\n".join(json.dumps({"level": "ERROR", "exception": {"stacktrace": TRACE}}) for _ in range(2))


@pytest.mark.parametrize(
    "text",
    [
        TRACE.replace("\n", "\r\n"),
        "".join(f"2026-01-02T03:04:05.678901Z stdout F {line}\n" for line in TRACE.splitlines()),
        "".join(f"jobmanager-1  | {line}\n" for line in TRACE.splitlines()),
        REST,
        LINES,
        TRACE.replace("\n", "\\n").replace("\t", "\\t"),
        f"{ENTRY}\n{TRACE}{ENTRY}\n{TRACE}",
    ],
    ids=["windows", "kubernetes", "compose", "rest", "json-lines", "escaped", "twice"],
)
def test_other_forms_have_the_same_trace_once(text: str) -> None:
    (trace,) = read_log(text).traces
    assert trace.throwables[-1] == ROOT


def test_a_message_without_a_trace_is_a_message() -> None:
    (trace,) = read_log("  The job failed.\n").traces
    assert trace.throwables == (Throwable("", "The job failed."),)
    assert read_log(" \n").traces == ()


def test_versions_and_backends_show_in_packages() -> None:
    frame = "\tat org.apache.flink.state.rocksdb.RocksDBKeyedStateBackend.get(RocksDBKeyedStateBackend.java:1)"
    log = read_log(f"java.io.IOException: no\n{frame}")
    assert (log.flink, log.backend) == ("2.x", "rocksdb")
    assert read_log("Starting a task manager (Version: 1.18.1, Scala: 2.12, Rev:a5)").flink == "1.18"


def test_suppressed_exceptions_are_not_causes() -> None:
    text = (
        "java.lang.RuntimeException: a\n\tat a.B.c(B.java:1)\n"
        "\tSuppressed: java.io.IOException: closed\n\t\tat a.B.close(B.java:1)\n"
        "\tCaused by: java.lang.Error: inner\n\t\tat a.B.d(B.java:1)\n"
        "Caused by: java.lang.IllegalStateException: root\n\tat a.B.e(B.java:1)\n"
    )
    (trace,) = read_log(text).traces
    assert [throwable.message for throwable in trace.throwables] == ["a", "root"]
    assert [throwable.message for throwable in trace.suppressed] == ["closed", "inner"]


def test_wrapped_by_has_the_root_first() -> None:
    text = (
        "java.io.IOException: root\n\tat a.B.c(B.java:1)\nWrapped by: java.lang.RuntimeException: outer\n\tat a.B.d(B.java:1)\n"
    )
    (trace,) = read_log(text).traces
    assert [throwable.message for throwable in trace.throwables] == ["outer", "root"]
    assert trace.throwables[0].frames == ("a.B.d",)


@pytest.mark.parametrize("prefix", ["Nov 28 02:03:04 host flink[123]: ", "[pod/tm-1/flink] ", "2026-01-02T03:04:05Z | "])
def test_prefixes_of_lines_are_removed(prefix: str) -> None:
    log = read_log("\n".join(prefix + line for line in TRACE.splitlines()))
    assert log.traces == (*read_log(TRACE).traces,)


def test_colors_are_removed() -> None:
    assert read_log(TRACE.replace("\tat ", "\x1b[31m\tat \x1b[0m")).traces == read_log(TRACE).traces


def test_an_exception_in_the_entry_of_the_log() -> None:
    text = f"{ENTRY} with failure cause: java.io.IOException: x\n\tat a.B.c(B.java:1)\n"
    (trace,) = read_log(text).traces
    assert trace.throwables == (Throwable("java.io.IOException", "x", ("a.B.c",)),)


def test_a_log_that_begins_inside_of_a_trace() -> None:
    (trace,) = read_log("\tat a.B.c(B.java:1)\n\tat a.B.d(B.java:1)\n").traces
    assert trace.frames == ("a.B.c", "a.B.d")
    (trace,) = read_log(f"\tat a.B.c(B.java:1)\n{ENTRY}\n{TRACE}").traces
    assert trace.throwables[-1] == ROOT


def test_exceptions_without_methods() -> None:
    text = "10:00:01 ERROR x - java.util.concurrent.CompletionException: java.io.IOException: No space left\n10:00:02 INFO y"
    (trace,) = read_log(text).traces
    assert trace.throwables[-1] == Throwable("java.io.IOException", "No space left")


def test_an_exception_of_py4j() -> None:
    text = f"py4j.protocol.Py4JJavaError: An error occurred while calling o42.execute.\n: {TRACE}"
    assert read_log(text).traces[-1].throwables[-1] == ROOT
