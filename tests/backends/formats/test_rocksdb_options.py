"""The OPTIONS file of a store is not used: it does not have a checksum, and some content crashes RocksDB."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import state_processor as sp
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import open_snapshot
from tests.backends.open_stores import close_stores
from tests.corpus import FIXTURES

NATIVE = FIXTURES / "2.3.0" / "orders-rocksdb-native" / "savepoint"
PROGRAM = """
import sys
import state_processor as sp
print(sum(batch.num_rows for batch in sp.arrow.read_state(sys.argv[1], "orders", "history")))
"""


def options_files(snapshot: Path) -> list[Path]:
    handles = (s.managed_keyed for o in open_snapshot(snapshot).metadata.operators for s in o.subtasks)
    embedded = [handle for handle in handles if isinstance(handle, h.IncrementalRemoteKeyedStateHandle)]
    streams = [f.stream for handle in embedded for f in handle.files if f.local_name.startswith("OPTIONS")]
    return [snapshot / stream.path for stream in streams if isinstance(stream, h.RelativeFileStateHandle)]


@pytest.mark.parametrize(
    ("told", "instead"),
    [
        # one bit is flipped: RocksDB crashes with a segmentation fault
        (b'[TableOptions/BlockBasedTable "history"', b'[TableOptions/BlockB`sedTable "history"'),
        (b'[CFOptions "history"', b'[CFOptions "histori"'),
        (b"merge_operator=", b"merge_operatos="),
        (b"num_levels=7", b"num_levels=1"),
    ],
)
def test_what_the_options_file_says_is_not_believed(tmp_path: Path, told: bytes, instead: bytes) -> None:
    copy = Path(shutil.copytree(NATIVE, tmp_path / "savepoint"))
    files = options_files(copy)
    assert files
    for file in files:
        data = file.read_bytes()
        assert told in data
        file.write_bytes(data.replace(told, instead, 1))
    expected = sum(batch.num_rows for batch in sp.arrow.read_state(NATIVE, "orders", "history"))
    child = subprocess.run([sys.executable, "-c", PROGRAM, str(copy)], capture_output=True, text=True, check=False, timeout=120)
    assert (child.returncode, child.stdout, child.stderr) == (0, f"{expected}\n", "")


def test_the_options_file_is_not_even_fetched(tmp_path: Path) -> None:
    copy = Path(shutil.copytree(NATIVE, tmp_path / "savepoint"))
    for file in options_files(copy):
        file.unlink()
    close_stores()
    assert list(sp.arrow.read_state(copy, "orders", "history")) == list(sp.arrow.read_state(NATIVE, "orders", "history"))
