"""A job of PyFlink whose savepoint is a fixture: ``pyflink_job.py DIRECTORY BACKEND``, by a Python with apache-flink.

Its workers write every value with their own coders. Writes ``savepoint/`` and ``expected.json``, the content of the states as
worked out from the job's input.
"""

from __future__ import annotations

import json
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pyflink.common import Configuration, Row, Types, WatermarkStrategy
from pyflink.datastream import KeyedBroadcastProcessFunction, KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from pyflink.java_gateway import get_gateway

INPUT = 60
KEYS = 7
FAR = 4_102_444_800_000  # in the year 2100
ROW = Types.ROW_NAMED(["name", "count"], [Types.STRING(), Types.INT()])
RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())


def key_of(number: int) -> str:
    return f"key-{number % KEYS}"


def pickled(number: int) -> Any:
    return {"i": number, "list": [number, number + 1], "none": None}


def hold(number: int) -> int:
    """Let few of the numbers through that come behind the input: a barrier has to come after all that wait in channels."""
    if number >= INPUT:
        time.sleep(0.1)
    return number


class Keyed(KeyedProcessFunction):
    """Fills states of every kind with the first numbers."""

    def __init__(self, ready: str) -> None:
        self.ready = ready

    def open(self, context: Any) -> None:
        self.states = {
            "value-string": context.get_state(ValueStateDescriptor("value-string", Types.STRING())),
            "value-pickled": context.get_state(ValueStateDescriptor("value-pickled", Types.PICKLED_BYTE_ARRAY())),
            "value-long": context.get_state(ValueStateDescriptor("value-long", Types.LONG())),
            "value-row": context.get_state(ValueStateDescriptor("value-row", ROW)),
            "list-long": context.get_list_state(ListStateDescriptor("list-long", Types.LONG())),
            "list-string": context.get_list_state(ListStateDescriptor("list-string", Types.STRING())),
            "map-string-long": context.get_map_state(MapStateDescriptor("map-string-long", Types.STRING(), Types.LONG())),
            "map-pickled": context.get_map_state(MapStateDescriptor("map-pickled", Types.STRING(), Types.PICKLED_BYTE_ARRAY())),
            "reducing-long": context.get_reducing_state(
                ReducingStateDescriptor("reducing-long", lambda a, b: a + b, Types.LONG())
            ),
        }

    def process_element(self, number: int, context: Any) -> Any:
        if number >= INPUT:
            Path(self.ready).touch()
            return
        self.states["value-string"].update(f"text é {number}")
        self.states["value-pickled"].update(pickled(number))
        self.states["value-long"].update(1000 * number)
        self.states["value-row"].update(Row(f"row-{number}", number))
        self.states["list-long"].add(number)
        self.states["list-string"].add(f"w{number}")
        self.states["map-string-long"].put(f"m{number}", number)
        self.states["map-pickled"].put(f"p{number}", ("tuple", number))
        self.states["reducing-long"].add(number)
        context.timer_service().register_processing_time_timer(FAR + number % KEYS)
        yield from ()


class WithRules(KeyedBroadcastProcessFunction):
    """Keeps rules that all subtasks know, and counts by key."""

    def open(self, context: Any) -> None:
        self.count = context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, number: int, context: Any) -> Any:
        if number < INPUT:
            self.count.update((self.count.value() or 0) + 1)
        yield from ()

    def process_broadcast_element(self, rule: Any, context: Any) -> Any:
        context.get_broadcast_state(RULES).put(rule[0], rule[1])
        yield from ()


def main(directory: Path, backend: str) -> None:
    ready = directory / "ready"
    settings = {
        "state.backend.type": backend,
        "python.executable": sys.executable,
        "python.fn-execution.bundle.size": "5",
        "parallelism.default": "2",
        "pipeline.max-parallelism": "128",
    }
    configuration = Configuration()
    for name, value in settings.items():
        configuration.set_string(name, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    numbers = env.from_source(
        NumberSequenceSource(0, 100_000_000), WatermarkStrategy.no_watermarks(), "numbers", type_info=Types.LONG()
    ).set_parallelism(1)
    numbers = numbers.map(hold, output_type=Types.LONG()).set_parallelism(1)
    keyed = numbers.key_by(key_of, key_type=Types.STRING())
    keyed.process(Keyed(str(ready)), output_type=Types.LONG()).uid("py-keyed").name("py-keyed")
    rules = [(f"rule-{i}", i * i) for i in range(4)]
    stream = env.from_collection(rules, type_info=Types.TUPLE([Types.STRING(), Types.LONG()])).broadcast(RULES)
    keyed.connect(stream).process(WithRules(), output_type=Types.LONG()).uid("py-broadcast").name("py-broadcast")
    job = env.execute_async("py")
    deadline = time.monotonic() + 600
    while not ready.exists():
        assert time.monotonic() < deadline, "the job has no state after 600 s"
        time.sleep(0.2)
    time.sleep(5)  # until the rules are there too
    canonical = get_gateway().jvm.org.apache.flink.core.execution.SavepointFormatType.CANONICAL
    written = Path(job._j_job_client.triggerSavepoint(str(directory), canonical).get().removeprefix("file:"))
    job.cancel().result()
    ready.unlink()
    written.rename(directory / "savepoint")
    content = {
        "case": "pyflink",
        "flink_version": version("apache-flink"),
        "backend": backend,
        "format": "canonical",
        "variant": f"{backend}-canonical",
        "parallelism": 2,
        "max_parallelism": 128,
        "settings": {},
        "snapshot_dir": "savepoint",
        "restore_check": False,
        "operators": expected(rules),
    }
    (directory / "expected.json").write_text(json.dumps(content, ensure_ascii=False), "utf-8")


def expected(rules: list[tuple[str, int]]) -> list[dict[str, Any]]:
    by_key: dict[str, list[int]] = {}
    for number in range(INPUT):
        by_key.setdefault(key_of(number), []).append(number)

    def state(name: str, kind: str, value_type: str, value: Any, **more: str) -> dict[str, Any]:
        entries = [{"key": key, "value": value(numbers)} for key, numbers in by_key.items()]
        return {"name": name, "kind": kind, "value_type": value_type, "ttl": False, **more, "entries": entries}

    pickle = "BYTES holding a Python pickle"
    text = {"map_key_type": "STRING"}
    keyed = [
        state("value-string", "VALUE", "STRING", lambda n: f"text é {n[-1]}"),
        state("value-pickled", "VALUE", pickle, lambda n: pickled(n[-1])),
        state("value-long", "VALUE", "LONG", lambda n: 1000 * n[-1]),
        state("value-row", "VALUE", "ROW<name:STRING,count:INT>", lambda n: {"kind": "+I", "fields": [f"row-{n[-1]}", n[-1]]}),
        state("list-long", "LIST", "LONG", lambda n: n),
        state("list-string", "LIST", "STRING", lambda n: [f"w{i}" for i in n]),
        state("map-string-long", "MAP", "LONG", lambda n: [[f"m{i}", i] for i in n], **text),
        state("map-pickled", "MAP", pickle, lambda n: [[f"p{i}", ["tuple", i]] for i in n], **text),
        state("reducing-long", "REDUCING", "LONG", sum),
        {
            "name": "processing timers",
            "kind": "PROCESSING_TIMER",
            "entries": [{"key": key, "timestamp": FAR + numbers[0]} for key, numbers in by_key.items()],
        },
    ]
    with_rules = [
        state("count", "VALUE", "LONG", len),
        {
            "name": "rules",
            "kind": "BROADCAST",
            "value_type": "LONG",
            **text,
            "entries": [{"key": name, "value": value} for name, value in rules],
        },
    ]
    return [{"uid": "py-keyed", "states": keyed}, {"uid": "py-broadcast", "states": with_rules}]


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), sys.argv[2])
