"""The kernels that decompress blocks, compared with a library; damaged bytes leave the memory around them alone."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable
from typing import Any, Final

import cramjam
import numpy as np
import pytest

from state_processor.backends.formats.sst.crc32c import masked_checksum
from state_processor.backends.formats.sst.decompression_kernels import decompress_lz4, decompress_snappy
from state_processor.serializers.kernel.compiler import entry_point
from state_processor.serializers.kernel.signatures import int64, read, uint8, written
from tests.fuzz.guard import guarded

_AFTER_SOURCE: Final = 4
_AFTER_TARGET: Final = 15


@entry_point(int64, read(uint8), int64, int64, written(uint8), int64)
def _decompress(kind, source, at, end, target, stop):  # type: ignore[no-untyped-def]
    if kind == 0:
        return decompress_snappy(source, at, end, target, 0, stop)
    return decompress_lz4(source, at, end, target, 0, stop)


def _compress_snappy(content: bytes) -> bytes:
    framed = bytes(cramjam.snappy.compress_raw(content))
    return framed[next(i for i, byte in enumerate(framed) if byte < 0x80) + 1 :]


def _compress_lz4(content: bytes) -> bytes:
    return bytes(cramjam.lz4.compress_block(content, store_size=False))


FORMATS: Final[dict[int, Callable[[bytes], bytes]]] = {0: _compress_snappy, 1: _compress_lz4}


def decompress(kind: int, packed: bytes, size: int) -> bytes | None:
    """Decompress in memory whose neighbours can't be touched."""
    source, target = guarded(len(packed) + _AFTER_SOURCE), guarded(size + _AFTER_TARGET)
    source[: len(packed)] = np.frombuffer(packed, dtype=np.uint8)
    done = _decompress(kind, source, 0, len(packed), target, size)
    return target[:size].tobytes() if done else None


def _content(rng: random.Random, most: int) -> bytes:
    parts: list[bytes] = []
    size = min(most, rng.choice((0, 1, 15, 16, 17, 300, 5000, 70_000)))
    while sum(len(part) for part in parts) < size:
        form = rng.randrange(4)
        if form == 0:
            parts.append(rng.randbytes(rng.choice((1, 3, 9, 20, 70, 400))))
        elif form == 1:
            parts.append(bytes([rng.randrange(256)]) * rng.choice((2, 7, 40, 1000)))
        elif form == 2:
            parts.append(rng.randbytes(rng.randrange(2, 30)) * rng.randrange(2, 9))
        else:
            parts.append(b"".join(parts)[-rng.choice((5, 18, 100)) :])
    return b"".join(parts)[:size]


@pytest.mark.parametrize("kind", FORMATS)
def test_everything_that_a_library_compresses(kind: int) -> None:
    for seed in range(100):
        content = _content(random.Random(seed), 70_000)
        assert decompress(kind, FORMATS[kind](content), len(content)) == content, f"seed {seed}"


@pytest.mark.parametrize("kind", FORMATS)
def test_damaged_bytes_and_other_sizes(kind: int) -> None:
    refused = 0
    for seed in range(400):
        rng = random.Random(seed)
        content = _content(rng, 3000)
        packed = bytearray(FORMATS[kind](content))
        size = len(content)
        for _ in range(rng.randrange(1, 4)):
            damage = rng.randrange(4)
            if damage == 0:
                size = max(0, size + rng.choice((-1, 1, -20, 20)))
            elif damage == 1:
                del packed[rng.randrange(len(packed) + 1) :]
            elif packed:
                packed[rng.randrange(len(packed))] = rng.choice((0, 1, 0xFC, 0xFF, rng.randrange(256)))
        refused += decompress(kind, bytes(packed), size) is None
    assert refused > 150


def _checksum_in_process(**environment: str) -> int:
    program = "import numpy as np; from state_processor.backends.formats.sst.crc32c import masked_checksum as m; "
    program += "print(m(np.arange(1000, dtype=np.uint8), 3, 998))"
    variables: dict[str, Any] = os.environ | environment
    return int(subprocess.run([sys.executable, "-c", program], env=variables, check=True, capture_output=True).stdout)


def test_checksums_with_and_without_the_instruction_of_the_processor() -> None:
    data = np.frombuffer(b"123456789", dtype=np.uint8)
    unmasked = 0xE3069283
    assert masked_checksum(data, 0, 9) == ((unmasked >> 15 | unmasked << 17) + 0xA282EAD8) & 0xFFFFFFFF
    expected = masked_checksum(np.arange(1000, dtype=np.uint8), 3, 998)
    assert _checksum_in_process(NUMBA_CPU_NAME="generic", NUMBA_CPU_FEATURES="") == expected
