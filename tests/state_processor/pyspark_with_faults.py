"""Faults in the midst of a write.

Spark's executors run this module as their worker module (``spark.python.worker.module``; the name has to begin with ``pyspark``);
the process that commits imports it as a module of serializers.

A file defines the fault, its place and its frequency. It is read each time, because workers live longer than a write. Spark hands
rows over in portions small enough for a fault to come between them.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from pyspark import TaskContext
from pyspark.worker import main

from state_processor.backends.write.entry_encoder import BlobAddress
from state_processor.backends.write.keyed_writer import KeyedStateFileWriter
from state_processor.backends.write.staging import Staging
from state_processor.backends.write.store_writer import KeyedStateStoreWriter
from state_processor.write.tasks import passes

__all__ = ["main"]

FAULT_VARIABLE: Final = "STATE_PROCESSOR_TEST_FAULT"
SMALL_BATCH: Final = 500
_calls: Counter[tuple[int, int]] = Counter()


def fault() -> dict[str, Any]:
    """A fault: ``where``, ``how``, how many ``times``, at which ``call`` each time; and its ``number``."""
    path = Path(os.environ.get(FAULT_VARIABLE, "/dev/null"))
    return json.loads(path.read_text() or "{}") if path.is_file() else {}


def _kill_worker() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _kill_executor() -> None:
    """Kill the JVM that has asked for this worker."""
    os.kill(int(os.environ["TESTS_JVM"]), signal.SIGKILL)
    time.sleep(60)


def _raise() -> None:
    raise OSError("the disk is on fire")


HOW: Final[dict[str, Callable[[], None]]] = {
    "worker": _kill_worker,
    "executor": _kill_executor,
    "raise": _raise,
    "slow": lambda: time.sleep(20),
    "forever": lambda: time.sleep(600),
}


def point(where: str) -> None:
    """A point where a fault may come: in the first partition of a stage, or, but for ``rows``, on the driver."""
    wanted = fault()
    context = TaskContext.get()
    if wanted.get("where") != where or (context.partitionId() if context is not None else where == "rows"):
        return
    attempt = (wanted["number"], context.taskAttemptId() if context is not None else -1)
    _calls[attempt] += 1
    log = Path(f"{os.environ[FAULT_VARIABLE]}.{wanted['number']}")
    done = log.read_text().splitlines() if log.exists() else []
    if len(done) < wanted["times"] and _calls[attempt] == wanted["call"]:
        with log.open("a") as file:
            file.write(f"{where} {wanted['how']}\n")
        HOW[wanted["how"]]()


def _before(where: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def watched(*arguments: Any, **named: Any) -> Any:
        point(where)
        return function(*arguments, **named)

    return watched


passes.merge_batches = partial(passes.merge_batches, most_rows=SMALL_BATCH)
BlobAddress.blobs = _before("rows", BlobAddress.blobs)  # type: ignore[method-assign]
for writer in (KeyedStateFileWriter, KeyedStateStoreWriter):
    writer.add = _before("file", writer.add)  # type: ignore[method-assign]
Staging.commit = _before("commit", Staging.commit)  # type: ignore[method-assign]
