"""Logs of the changelog backend as Flink writes them."""

from __future__ import annotations

import struct

import cramjam

from state_processor.backends.metadata import handles as h
from state_processor.backends.state import state_headers
from state_processor.backends.state.key_groups import key_group
from state_processor.serializers.core.basic import StringSerializer
from state_processor.serializers.io import DataOutput

MAX_PARALLELISM = 128
KEY = StringSerializer()
VOID = b"\x00"
_METADATA = 8


def group_of(key: str) -> int:
    return int(key_group(KEY.hash_code(key), MAX_PARALLELISM))


class Log:
    """A log as Flink writes it."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}
        self._changes: list[h.StateChange] = []

    def announce(self, meta: state_headers.StateMetaInfo) -> None:
        self._ids[meta.name] = len(self._ids) + 7
        target = DataOutput()
        target.write_byte(_METADATA)
        target.write_int(7)
        meta.write(target)
        if meta.backend_type == "KEY_VALUE":
            target.write_bytes(b"\x00\x00")  # neither time-to-live nor default value
        target.write_short(self._ids[meta.name])
        target.write_byte(0)
        self._changes.append(h.StateChange(-1, target.to_bytes()))

    def change(self, state: str, operation: int, key: str, data: bytes = b"", scope: bytes | None = None) -> None:
        where = KEY.serialize(key) + VOID if scope is None else scope
        self._changes.append(h.StateChange(group_of(key), struct.pack(">bh", operation, self._ids[state]) + where + data))

    def handle(self, groups: h.KeyGroupRange) -> h.InMemoryChangelogStateHandle:
        return h.InMemoryChangelogStateHandle(groups, 0, 1, tuple(self._changes), "log")

    def file(self, *, compressed: bool, before: bytes = b"") -> tuple[bytes, int]:
        """The content of a file of the log, and the offset of the changes in it."""
        by_group: dict[int, list[bytes]] = {}
        for change in self._changes:
            by_group.setdefault(change.key_group, []).append(change.data)
        data = struct.pack(">i", len(by_group))
        for group in sorted(by_group):
            data += struct.pack(">ii", len(by_group[group]), group)
            data += b"".join(struct.pack(">i", len(c)) + c for c in by_group[group])
        plain = before + data
        if compressed:
            return b"\x01" + bytes(cramjam.snappy.compress(plain)), len(before)
        return b"\x00" + plain, len(before)
