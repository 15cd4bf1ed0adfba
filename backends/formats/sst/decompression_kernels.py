"""Kernels that decompress blocks: snappy and LZ4, the compressions that Flink's options of RocksDB have by default or recommend.

A block has a few kilobytes. Calls of a library for each block take longer than decompressing it. The formats are described in
``format_description.txt`` of snappy and ``lz4_Block_format.md`` of LZ4.

Every length is compared with the remaining bytes before its use. Copies take sixteen bytes at a time: they write up to fifteen
bytes behind the decompressed block, and read that many behind compressed bytes only within their array.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from state_processor.serializers.kernel.compiler import inlined_kernel, kernel
from state_processor.serializers.kernel.memory import load_i32, load_i64, store_i64

_STEP: Final = 16
_LEAST_MATCH: Final = 4


@inlined_kernel
def _copy_step(target, to, source, at):  # type: ignore[no-untyped-def]
    low_word = load_i64(source, at)
    high_word = load_i64(source, at + 8)
    store_i64(target, to, low_word)
    store_i64(target, to + 8, high_word)


@inlined_kernel
def _copy_literal(target, to, source, at, size, last_step):  # type: ignore[no-untyped-def]
    """Copy a literal, whose bytes are not compressed. No step begins behind ``last_step`` in ``source``."""
    if at + size <= last_step:
        i = 0
        while i < size:
            _copy_step(target, to + i, source, at + i)
            i += _STEP
    else:
        for i in range(size):
            target[to + i] = source[at + i]


@inlined_kernel
def _copy_match(target, to, distance, size):  # type: ignore[no-untyped-def]
    """Copy earlier output. A copy longer than its distance repeats these bytes."""
    if distance >= _STEP:
        i = 0
        while i < size:
            _copy_step(target, to + i, target, to + i - distance)
            i += _STEP
    elif distance >= 8:
        i = 0
        while i < size:
            store_i64(target, to + i, load_i64(target, to + i - distance))
            i += 8
    else:
        for i in range(size):
            target[to + i] = target[to + i - distance]


@kernel
def decompress_snappy(source, at, end, target, begin, stop):  # type: ignore[no-untyped-def]
    """Decompress from ``at`` to ``end`` of ``source``, and return whether exactly ``begin`` to ``stop`` result.

    Four more bytes follow in ``source``. The size in front of the compressed bytes is not part of them.
    """
    to = begin
    last_step = len(source) - _STEP
    while at < end:
        word = load_i32(source, at)
        size = ((word & 0xFF) >> 2) + 1
        if word & 3 == 0:
            at += 1
            if size <= _STEP and at <= last_step and at + size <= end and to + size <= stop:
                _copy_step(target, to, source, at)
            else:
                if size > 60:  # the next one to four bytes are the size
                    width = size - 60
                    if width > end - at:
                        return False
                    size = (load_i32(source, at) & ((np.int64(1) << (8 * width)) - 1)) + 1
                    at += width
                if size > end - at or size > stop - to:
                    return False
                _copy_literal(target, to, source, at, size, last_step)
            at += size
            to += size
            if at >= end:
                break
            word = load_i32(source, at)
            if word & 3 == 0:
                continue
            size = ((word & 0xFF) >> 2) + 1
        kind = word & 3
        if kind == 3:
            distance = load_i32(source, at + 1) & 0xFFFFFFFF
            at += 5
        else:
            is_short = kind == 1
            size = ((word >> 2) & 7) + 4 if is_short else size
            distance = ((word & 0xE0) << 3) | ((word >> 8) & 0xFF) if is_short else (word >> 8) & 0xFFFF
            at += 1 + kind
        if at > end or distance == 0 or distance > to - begin or size > stop - to:
            return False
        _copy_match(target, to, distance, size)
        to += size
    return to == stop


@inlined_kernel
def _lz4_size(source, at, end, size):  # type: ignore[no-untyped-def]
    """Return a size that bytes may continue, and where they end; a position of -1 if they don't end."""
    if size == 15:
        while True:
            if at >= end:
                return size, np.int64(-1)
            byte = np.int64(source[at])
            at += 1
            size += byte
            if byte != 255:
                break
    return size, at


@kernel
def decompress_lz4(source, at, end, target, begin, stop):  # type: ignore[no-untyped-def]
    """Decompress like :func:`decompress_snappy`; the bytes end with literals."""
    to = begin
    last_step = len(source) - _STEP
    while at < end:
        token = np.int64(source[at])
        size, at = _lz4_size(source, at + 1, end, token >> 4)
        if at < 0 or size > end - at or size > stop - to:
            return False
        _copy_literal(target, to, source, at, size, last_step)
        at += size
        to += size
        if at == end:
            return to == stop
        if end - at < 2:
            return False
        distance = load_i32(source, at) & 0xFFFF
        size, at = _lz4_size(source, at + 2, end, token & 15)
        size += _LEAST_MATCH
        if at < 0 or distance == 0 or distance > to - begin or size > stop - to:
            return False
        _copy_match(target, to, distance, size)
        to += size
    return False
