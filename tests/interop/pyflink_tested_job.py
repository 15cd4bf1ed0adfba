"""A job of PyFlink that is tested: ``pyflink_tested_job.py DIRECTORY``, by a Python with apache-flink. Prints its savepoint."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from pyflink.common import Configuration, Types, WatermarkStrategy
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.datastream.state import ListStateDescriptor, ValueStateDescriptor
from pyflink.java_gateway import get_gateway

EVENTS = (("amelia", 1), ("anders", 5), ("amelia", 2))
END = ("", 0)
EVENT = Types.TUPLE([Types.STRING(), Types.LONG()])


class Counting(KeyedProcessFunction):
    """The function under test: the sum and the list of each customer's amounts."""

    def open(self, context: Any) -> None:
        self.total = context.get_state(ValueStateDescriptor("total", Types.LONG()))
        self.history = context.get_list_state(ListStateDescriptor("history", Types.LONG()))

    def process_element(self, event: Any, context: Any) -> Any:
        self.total.update((self.total.value() or 0) + event[1])
        self.history.add(event[1])
        yield event[0]


def event_of(number: int) -> tuple[str, int]:
    """Return the events of the test, and then the end again and again: a savepoint needs a job that runs."""
    if number < len(EVENTS):
        return EVENTS[number]
    time.sleep(0.1)
    return END


def main(directory: Path) -> None:
    ready = str(directory / "ready")

    def is_event(event: Any) -> bool:
        if event[0]:
            return True
        Path(ready).touch()  # all events are on their way: a savepoint waits for them
        return False

    configuration = Configuration()
    settings = {"python.executable": sys.executable, "python.fn-execution.bundle.size": "1", "parallelism.default": "1"}
    for name, value in settings.items():
        configuration.set_string(name, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    numbers = env.from_source(
        NumberSequenceSource(0, 10**9), WatermarkStrategy.no_watermarks(), "numbers", type_info=Types.LONG()
    )
    events = numbers.map(event_of, output_type=EVENT).filter(is_event)
    counts = events.key_by(lambda event: event[0], key_type=Types.STRING()).process(Counting(), output_type=Types.STRING())
    counts.uid("counts").name("counts")
    job = env.execute_async("counting")
    deadline = time.monotonic() + 300
    while not Path(ready).exists():
        assert time.monotonic() < deadline, "the events are not processed after 300 s"
        time.sleep(0.1)
    canonical = get_gateway().jvm.org.apache.flink.core.execution.SavepointFormatType.CANONICAL
    print(job._j_job_client.stopWithSavepoint(False, str(directory), canonical).get())


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
