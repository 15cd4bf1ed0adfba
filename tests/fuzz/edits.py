"""Edits of bytes: values of their own, so that a failing input can be stored, shown and minimised."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

_WORDS: Final = (
    b"",
    b"\0",
    b"\xc0\x80",
    b"\xed\xa0\x80",
    b"\xed\xb0\x80x",
    b"..",
    b"../../etc/passwd",
    b"file:/dev/zero",
    b"s3://bucket/key?endpoint_override=localhost:1&scheme=http",
    b"a" * 300,
    b"\xff\xff",
    "ẞ€😀".encode("utf-8", "surrogatepass"),
    b"[[I",
    b"java.util.HashMap",
    b"java.lang.Class",
    b"{",
    b"null",
)
_MOST_EDITS: Final = 6


@dataclass(frozen=True, slots=True)
class Field:
    """A place of a seed that means something: ``kind`` is ``number``, ``little`` (a little-endian number) or ``text``."""

    offset: int
    size: int
    kind: str = "number"


@dataclass(frozen=True, slots=True)
class Edit:
    """``removed`` bytes at ``offset`` of the seed give way to ``inserted``."""

    offset: int
    removed: int
    inserted: bytes = b""

    @property
    def end(self) -> int:
        """Offset after the removed bytes."""
        return self.offset + self.removed


Edits = tuple[Edit, ...]


@dataclass
class Seed:
    """Well-formed input.

    ``fixed``: the length is recorded elsewhere, so only truncation changes it. ``context`` contains data for its target,
    ``find_fields`` finds its fields, ``special`` draws edits that only this kind of input has.
    """

    name: str
    data: bytes
    context: Any = None
    fixed: bool = False
    find_fields: Callable[[], Sequence[Field]] = tuple
    special: Callable[[random.Random, bytes], Edit] | None = None

    @cached_property
    def fields(self) -> Sequence[Field]:
        """The fields, found at the first use: to read it once more takes no fields."""
        return self.find_fields()


def apply(data: bytes, edits: Sequence[Edit]) -> bytes:
    """Return the data with all edits made; they must not overlap."""
    pieces, position = [], 0
    for edit in sorted(edits, key=lambda e: e.offset):
        pieces += [data[position : edit.offset], edit.inserted]
        position = edit.end
    return b"".join([*pieces, data[position:]])


def draw(rng: random.Random, seed: Seed) -> Edits:
    """Draw at least one edit of a seed."""
    count = rng.choices((1, 2, rng.randint(3, _MOST_EDITS)), (6, 2, 1))[0]
    edits: list[Edit] = []
    for _ in range(count):
        edit = _draw_one(rng, seed)
        if all(edit.end <= e.offset or e.end <= edit.offset for e in edits):
            edits.append(edit)
    return tuple(edits)


def _draw_one(rng: random.Random, seed: Seed) -> Edit:
    size = len(seed.data)
    if not size:
        return Edit(0, 0, rng.randbytes(rng.randint(1, 16)))
    if seed.special is not None and rng.random() < 0.6:
        return seed.special(rng, seed.data)
    if seed.fields and rng.random() < 0.6:
        return _of_field(rng, seed, rng.choice(seed.fields))
    roll = rng.random()
    edit = next(edit for below, edit in (_OF_FIXED if seed.fixed else _OF_OTHERS) if roll < below)
    return edit(rng, seed.data, rng.randrange(size))


def _flip_bit(rng: random.Random, data: bytes, offset: int) -> Edit:
    return Edit(offset, 1, bytes([data[offset] ^ (1 << rng.randrange(8))]))


def _replace_byte(rng: random.Random, data: bytes, offset: int) -> Edit:
    return Edit(offset, 1, rng.choice((b"\0", b"\1", b"\x7f", b"\x80", b"\xff", rng.randbytes(1))))


def _replace_number(rng: random.Random, data: bytes, offset: int) -> Edit:
    left = len(data) - offset
    width = min(rng.choice((1, 2, 4, 8)), left)
    return Edit(offset, width, _number(rng, data[offset : offset + width], left))


def _length(rng: random.Random, data: bytes, offset: int) -> int:
    return min(rng.choice((1, 2, 4, 8, 16, rng.randint(1, 256))), len(data) - offset)


def _copy_other(rng: random.Random, data: bytes, offset: int) -> Edit:
    length = _length(rng, data, offset)
    source = rng.randrange(len(data) - length + 1)
    return Edit(offset, length, data[source : source + length])


def _replace(rng: random.Random, data: bytes, offset: int) -> Edit:
    length = _length(rng, data, offset)
    return Edit(offset, length, rng.randbytes(length))


def _fill(byte: bytes) -> _Drawn:
    def edit(rng: random.Random, data: bytes, offset: int) -> Edit:
        length = _length(rng, data, offset)
        return Edit(offset, length, byte * length)

    return edit


def _truncate(rng: random.Random, data: bytes, offset: int) -> Edit:
    return Edit(offset, len(data) - offset)


def _remove(rng: random.Random, data: bytes, offset: int) -> Edit:
    return Edit(offset, _length(rng, data, offset))


def _insert(rng: random.Random, data: bytes, offset: int) -> Edit:
    return Edit(offset, 0, rng.randbytes(_length(rng, data, offset)))


def _repeat(rng: random.Random, data: bytes, offset: int) -> Edit:
    return Edit(offset, 0, data[offset : offset + _length(rng, data, offset)] * rng.randint(1, 8))


_Drawn = Callable[[random.Random, bytes, int], Edit]
_OF_ALL: Final[tuple[tuple[float, _Drawn], ...]] = (
    (0.35, _flip_bit),
    (0.55, _replace_byte),
    (0.7, _replace_number),
    (0.8, _copy_other),
    (0.85, _replace),
    (0.88, _truncate),
)
_OF_FIXED: Final = (*_OF_ALL, (0.94, _fill(b"\0")), (1.0, _fill(b"\xff")))
_OF_OTHERS: Final = (*_OF_ALL, (0.92, _remove), (0.96, _insert), (1.0, _repeat))
"""Edits at an offset. An edit is drawn if a random number from 0 to 1 is below its number."""


def _of_field(rng: random.Random, seed: Seed, place: Field) -> Edit:
    old = seed.data[place.offset : place.offset + place.size]
    if place.kind == "text" and rng.random() < 0.7:
        other = rng.choice(seed.fields)
        word = seed.data[other.offset : other.offset + other.size] if other.kind == "text" else rng.choice(_WORDS)
        word = rng.choice((word, rng.choice(_WORDS)))
        if seed.fixed or rng.random() < 0.5:
            word = (word * (place.size // max(1, len(word)) + 1))[: place.size]
            return Edit(place.offset, place.size, word)
        if place.offset >= 2 and seed.data[place.offset - 2 : place.offset] == place.size.to_bytes(2, "big"):
            return Edit(place.offset - 2, place.size + 2, len(word).to_bytes(2, "big") + word)
        return Edit(place.offset, place.size, word)
    if place.kind == "little":
        return Edit(place.offset, place.size, _number(rng, old[::-1], len(seed.data))[::-1])
    if place.size > 8 or not place.size:
        if not place.size:
            return Edit(place.offset, 0, b"" if seed.fixed else rng.choice(_WORDS))
        at = rng.randrange(place.size)
        return Edit(place.offset + at, 1, rng.randbytes(1))
    return Edit(place.offset, place.size, _number(rng, old, len(seed.data) - place.offset))


def _number(rng: random.Random, old: bytes, left: int) -> bytes:
    """A number of the same size that is likely to fail: an extreme, or a neighbour of the old number or remaining size."""
    bits = 8 * len(old)
    value = int.from_bytes(old, "big")
    roll = rng.random()
    if roll < 0.35:
        value = rng.choice((0, 1, 2, 4, -1, -2, 1 << (bits - 1), (1 << (bits - 1)) - 1, 1 << (bits // 2), 255, 256, 65535))
    elif roll < 0.6:
        value += rng.choice((1, -1, 2, -2, 4, -4, 8, 16, -16, 256, -256))
    elif roll < 0.7:
        value = rng.choice((value * 2, value // 2, -value, value << 8, value >> 8))
    elif roll < 0.85:
        value = left + rng.choice((0, 1, -1, -4, -8, 4, 8, 1024))
    else:
        value = rng.getrandbits(rng.randint(1, bits))
    return (value & ((1 << bits) - 1)).to_bytes(len(old), "big")
