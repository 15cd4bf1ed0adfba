"""Directories of jobs for the tests of fleets."""

from __future__ import annotations

import os
import struct
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa

import state_processor as sp
from state_processor.backends.connectors.connector import Versioned
from state_processor.backends.connectors.sink_state import (
    COLLECTORS,
    CheckpointCommittables,
    Collector,
    Request,
    SubtaskCommittables,
)

ORDERS, CLICKS = "0a" * 16, "0b" * 16


def checkpoint(job: Path, number: int, age: timedelta, keys: int = 10, *uids: str, sink: bool = False) -> Path:
    """Write ``chk-N`` of a job: operators with as many keys, and a sink with a transaction of Kafka."""
    path = job / f"chk-{number}"
    writer = sp.arrow.SavepointWriter.new(max_parallelism=8, flink_version="2.0")
    rows = [{"key": key, "total": key} for key in range(keys)]
    for uid in uids or ("orders",):
        writer.with_keyed_state(uid, rows, states={"total": sp.ValueState(sp.Types.LONG())}, key_type=sp.Types.LONG())
    if sink:
        committable = struct.pack(">hq", 3, 77) + struct.pack(">H", 6) + b"orders"
        requests = SubtaskCommittables((Request(Versioned(1, committable)),), 1, 0, None, 0)
        element = COLLECTORS.write(Collector((CheckpointCommittables(number, (requests,), 1, 2, 0),), 1), 2).to_bytes()
        elements = pa.table({"value": [element]})
        writer.with_list_state("Sink Committer: out", "streaming_committer_raw_states", elements, sp.Types.BYTES())
    writer.write(str(path), checkpoint_id=number)
    set_age(path, age)
    return path


def set_age(path: Path, age: timedelta) -> None:
    """Set the time of ``_metadata``."""
    then = (datetime.now(UTC) - age).timestamp()
    os.utime(path / "_metadata", (then, then))
