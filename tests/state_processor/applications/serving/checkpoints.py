"""Checkpoints of a job that replaces them: all values of a checkpoint are its number."""

from __future__ import annotations

import shutil
from pathlib import Path

import state_processor as sp
from state_processor.backends.write.keyed_formats import BackendName

JOB = "0123456789abcdef0123456789abcdef"
KEYS = range(40)
_PAD = "".join(map(chr, range(0x400, 0x1000)))
"""So large that state is in files, and not in ``_metadata``."""
TOKEN = "a-token-of-the-tests"


def write_checkpoint(directory: Path, number: int, backend: BackendName = "rocksdb") -> Path:
    """Write ``chk-N`` of the job."""
    target = directory / JOB / f"chk-{number}"
    writer = sp.arrow.SavepointWriter.new(max_parallelism=8, flink_version="1.20")
    rows = [{"key": key, "total": number, "pad": _PAD} for key in KEYS]
    states = {"total": sp.ValueState(sp.Types.LONG()), "pad": sp.ValueState(sp.Types.STRING())}
    writer.with_keyed_state("totals", rows, key="key", key_type=sp.Types.LONG(), states=states, parallelism=2)
    writer.write(str(target), format="native", backend=backend, checkpoint_id=number)
    return target


def remove_checkpoint(directory: Path, number: int) -> None:
    """Remove ``chk-N`` as Flink does: ``_metadata`` first."""
    target = directory / JOB / f"chk-{number}"
    (target / "_metadata").unlink()
    shutil.rmtree(target)
