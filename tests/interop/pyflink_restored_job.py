"""A job of PyFlink that goes on from a savepoint: ``pyflink_restored_job.py SAVEPOINT DIRECTORY KEY...``.

A Python with apache-flink runs it by hand. It has the states of ``pyflink_job.py``. Writes the states of a key to
``keyed-KEY.json`` and ``rules-KEY.json``, changes some of them, and takes ``savepoint/``.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from pyflink.common import Configuration, JobStatus, Row, Types, WatermarkStrategy
from pyflink.datastream import KeyedBroadcastProcessFunction, KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from pyflink.java_gateway import get_gateway

IDLE = "no key of the savepoint"
ROW = Types.ROW_NAMED(["name", "count"], [Types.STRING(), Types.INT()])
RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())


def show(value: Any) -> Any:
    return value.as_dict() if isinstance(value, Row) else value


class Keyed(KeyedProcessFunction):
    """Writes the states of a key to a file, and changes them."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def open(self, context: Any) -> None:
        self.values = {
            "value-string": context.get_state(ValueStateDescriptor("value-string", Types.STRING())),
            "value-pickled": context.get_state(ValueStateDescriptor("value-pickled", Types.PICKLED_BYTE_ARRAY())),
            "value-long": context.get_state(ValueStateDescriptor("value-long", Types.LONG())),
            "value-row": context.get_state(ValueStateDescriptor("value-row", ROW)),
        }
        self.lists = {
            "list-long": context.get_list_state(ListStateDescriptor("list-long", Types.LONG())),
            "list-string": context.get_list_state(ListStateDescriptor("list-string", Types.STRING())),
        }
        self.maps = {
            "map-string-long": context.get_map_state(MapStateDescriptor("map-string-long", Types.STRING(), Types.LONG())),
            "map-pickled": context.get_map_state(MapStateDescriptor("map-pickled", Types.STRING(), Types.PICKLED_BYTE_ARRAY())),
        }
        self.sum = context.get_reducing_state(ReducingStateDescriptor("reducing-long", lambda a, b: a + b, Types.LONG()))

    def process_element(self, key: str, context: Any) -> Any:
        if key == IDLE:
            return
        found: dict[str, Any] = {"key": context.get_current_key(), "reducing-long": self.sum.get()}
        found |= {name: show(state.value()) for name, state in self.values.items()}
        found |= {name: list(state.get()) for name, state in self.lists.items()}
        found |= {name: sorted([k, v] for k, v in state.items()) for name, state in self.maps.items()}
        Path(self.directory, f"keyed-{key}.json").write_text(json.dumps(found), "utf-8")
        self.values["value-long"].update((self.values["value-long"].value() or 0) + 1)
        self.values["value-row"].update(Row("restored", 1))
        self.lists["list-long"].add(-1)
        self.maps["map-string-long"].put("restored", -1)
        self.sum.add(1000)
        yield from ()


class WithRules(KeyedBroadcastProcessFunction):
    """Writes the rules that it has to a file."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def open(self, context: Any) -> None:
        self.count = context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, key: str, context: Any) -> Any:
        if key == IDLE:
            return
        rules = dict(context.get_broadcast_state(RULES).items())
        found = {"key": key, "count": self.count.value(), "rules": rules}
        Path(self.directory, f"rules-{key}.json").write_text(json.dumps(found), "utf-8")
        yield from ()

    def process_broadcast_element(self, rule: Any, context: Any) -> Any:
        yield from ()


def main(savepoint: Path, directory: Path, keys: list[str]) -> None:
    settings = {
        "execution.state-recovery.path": savepoint.as_uri(),
        "execution.state-recovery.ignore-unclaimed-state": "true",
        "python.executable": sys.executable,
        "python.fn-execution.bundle.time": "100",
        "parallelism.default": "2",
        "pipeline.max-parallelism": "128",
    }
    configuration = Configuration()
    for name, value in settings.items():
        configuration.set_string(name, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    numbers = env.from_source(
        NumberSequenceSource(0, 100_000_000), WatermarkStrategy.no_watermarks(), "keys", type_info=Types.LONG()
    )
    numbers = numbers.uid("keys").set_parallelism(1)  # a source of its own, which begins with 0

    def key_of(number: int) -> str:
        """A key for each of the first numbers; later numbers only keep the job running."""
        if number >= len(keys):
            time.sleep(0.1)
            return IDLE
        return keys[number]

    names = numbers.map(key_of, output_type=Types.STRING()).set_parallelism(1)
    keyed = names.key_by(lambda key: key, key_type=Types.STRING())
    keyed.process(Keyed(str(directory)), output_type=Types.LONG()).uid("py-keyed").name("py-keyed")
    rules = env.from_collection([("none", 0)], type_info=Types.TUPLE([Types.STRING(), Types.LONG()])).broadcast(RULES)
    keyed.connect(rules).process(WithRules(str(directory)), output_type=Types.LONG()).uid("py-broadcast").name("py-broadcast")
    job = env.execute_async("py-restored")
    deadline = time.monotonic() + 400
    while len(list(directory.glob("*-*.json"))) < 2 * len(keys):
        time.sleep(0.2)
        if job.get_job_status().result() is JobStatus.FAILED:
            job.get_job_execution_result().result()  # raises the reason
        if time.monotonic() > deadline:
            raise TimeoutError(f"the job has not come to all keys, but to {sorted(directory.glob('*-*.json'))}")
    canonical = get_gateway().jvm.org.apache.flink.core.execution.SavepointFormatType.CANONICAL
    written = Path(job._j_job_client.triggerSavepoint(str(directory), canonical).get().removeprefix("file:"))
    job.cancel().result()
    written.rename(directory / "savepoint")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve(), sys.argv[3:])
