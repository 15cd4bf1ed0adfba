"""Checksums of one and of three parts of some bytes, compared with a definition; the damaged bytes of blocks are found."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from state_processor.backends.formats.sst.block_format import TRAILER
from state_processor.backends.formats.sst.block_kernels import OFFSET, SIZE
from state_processor.backends.formats.sst.crc32c import TABLES, masked_checksum, masked_crc32c_of_three
from state_processor.serializers.kernel.compiler import entry_point
from state_processor.serializers.kernel.signatures import int64, partly_read, read, uint8, written
from state_processor.support.errors import CorruptSnapshotError, StateProcessorError
from tests.backends.formats.sst import stores
from tests.backends.formats.sst import table_writer as w
from tests.backends.formats.sst.test_tables import read as read_table
from tests.backends.formats.sst.test_tables import written as written_table

SIZES: Final = (0, 1, 7, 8, 9, 15, 16, 23, 24, 100, 1000)


@entry_point(partly_read(uint8), read(int64, 2), read(int64, 2), written(int64))
def _of_three(data, spans, tables, checksums):  # type: ignore[no-untyped-def]
    first, second, third = masked_crc32c_of_three(
        data, spans[0, 0], spans[0, 1], spans[1, 0], spans[1, 1], spans[2, 0], spans[2, 1], tables
    )
    checksums[0] = first
    checksums[1] = second
    checksums[2] = third


def by_definition(data: bytes) -> int:
    """Return the masked checksum of some bytes, a bit at a time."""
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
    value ^= 0xFFFFFFFF
    return ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF


def check(seed: int) -> None:
    """Compare the checksums of three parts that begin anywhere, with any sizes."""
    rng = random.Random(seed)
    data = np.frombuffer(rng.randbytes(1200), dtype=np.uint8)
    spans = np.empty((3, 2), dtype=np.int64)
    for i in range(3):
        size = rng.choice(SIZES)
        begin = rng.randrange(len(data) - size + 1)
        spans[i] = begin, begin + size
    checksums = np.empty(3, dtype=np.int64)
    _of_three(data, spans, TABLES, checksums)
    expected = [by_definition(data[begin:end].tobytes()) for begin, end in spans.tolist()]
    assert checksums.tolist() == expected, f"seed {seed}: {spans.tolist()}"
    assert [masked_checksum(data, *span) for span in spans.tolist()] == expected


def test_three_parts_of_any_sizes_and_places() -> None:
    for seed in range(200):
        check(seed)


def test_three_parts_without_the_instruction_of_the_processor() -> None:
    program = "from tests.backends.formats.sst.test_crc32c import check\nfor seed in range(20): check(seed)"
    variables = os.environ | {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}
    subprocess.run([sys.executable, "-c", program], env=variables, check=True, cwd=Path(__file__).parents[4])


@pytest.mark.parametrize("compression", [w.NONE, w.SNAPPY])
@pytest.mark.parametrize("count", range(1, 8))
def test_a_damaged_byte_anywhere_in_any_block(count: int, compression: int, tmp_path: Path) -> None:
    """Blocks begin at all alignments, because their sizes differ; the message has the place of the damaged block."""
    rng = random.Random(count)
    entries = [w.Entry(b"%02d" % i, i + 1, w.VALUE, rng.randbytes(rng.randrange(1, 60))) for i in range(count)]
    file = written_table(tmp_path, entries, w.Layout(compression=compression, block_bytes=1))
    path = tmp_path / file.name
    content = path.read_bytes()
    blocks = stores.tables_of(tmp_path)(file).blocks().rows[:, (OFFSET, SIZE)].tolist()
    assert len(blocks) == count
    for begin, size in blocks:
        kind = begin + size
        content_at = begin + 2  # behind the decompressed size
        for at in {content_at, kind - 1, kind + 1, kind + TRAILER - 1, *(rng.randrange(content_at, kind) for _ in range(8))}:
            path.write_bytes(_damaged(content, at, rng))
            with pytest.raises(CorruptSnapshotError, match=rf"block at {begin}: its checksum is"):
                read_table(tmp_path, file)
        for at in (begin, kind):
            path.write_bytes(_damaged(content, at, rng))
            with pytest.raises(StateProcessorError, match=file.name):
                read_table(tmp_path, file)
    path.write_bytes(content)
    assert read_table(tmp_path, file) == [(entry.key, entry.value) for entry in entries]


def _damaged(content: bytes, at: int, rng: random.Random) -> bytes:
    return content[:at] + bytes([content[at] ^ (1 << rng.randrange(8))]) + content[at + 1 :]
