"""The report about an erasure: the removed values, and the proof that they are gone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

from state_processor.display.text_tables import json_value, render_records


@dataclass(frozen=True)
class ErasureReport:
    """The outcome of an erasure, for an audit. It is true if both checks of the new savepoint find nothing.

    Attributes
    ----------
    source, target
        The directories of the source savepoint and of the new one.
    source_sha256, target_sha256
        SHA-256 of ``_metadata`` in both, as hexadecimal text.
    time
        The time of the report in ISO 8601, in UTC.
    version
        The version of this package.
    sought
        The texts, keys and the condition, under ``text``, ``key`` and ``where``.
    actions
        The chosen actions.
    removed
        The removed values, as rows with ``operator``, ``state``, ``state_kind``, ``action`` and ``count``.
    changes
        The changes of the write, as rows with ``operator``, ``state``, ``change``, and the numbers of entries that were
        ``written``, ``updated`` and ``deleted``. A removed key also removes the entries of the other states of its operator.
    rewritten
        The operators whose files were rewritten, with ``operator`` and ``reason``.
    remaining
        Hits in the rows of the new savepoint, with the columns of :class:`~state_processor.Findings`, and rows of the condition.
    remaining_files
        Files of the new savepoint whose bytes contain a hit: ``file``, and ``count``, the number of hits.
    undecoded
        State that can't be decoded. Its bytes were searched. Data that the job encoded or compressed itself is not found.
    unsearched
        Keys that are too short to be told from other values in bytes, such as small numbers, and ``where`` for the rows of a
        condition. Only the read of the new savepoint covers them.
    files, bytes
        The number of files and parts of the new savepoint that were searched, and the number of searched bytes.
    """

    source: str
    target: str
    source_sha256: str
    target_sha256: str
    time: str
    version: str
    sought: dict[str, list[str]]
    actions: list[str]
    removed: list[dict[str, Any]]
    changes: list[dict[str, Any]]
    rewritten: list[dict[str, str]]
    remaining: list[dict[str, Any]]
    remaining_files: list[dict[str, Any]]
    undecoded: list[dict[str, Any]]
    unsearched: list[str]
    files: int
    bytes: int

    def __bool__(self) -> bool:
        return self.is_clean

    @property
    def is_clean(self) -> bool:
        """True if neither reading nor a search in all bytes finds anything. See ``unsearched`` for the limits of the search."""
        return not self.remaining and not self.remaining_files

    def to_json(self) -> str:
        """Return the report as JSON."""
        return json.dumps({"clean": self.is_clean, **json_value(asdict(self))}, ensure_ascii=False, indent=2)

    def __str__(self) -> str:
        sought = "; ".join(f"{name} {', '.join(values)}" for name, values in self.sought.items())
        unsearched = "was not searched for in bytes, which do not tell it from other values"
        searched = f"read again, and {self.bytes} bytes of {self.files} files and parts searched" if self.files else "read again"
        return "\n".join(
            [
                f"Erasure of {sought}",
                f"from {self.source}, _metadata SHA-256 {self.source_sha256}",
                f"into {self.target}, _metadata SHA-256 {self.target_sha256}",
                f"at {self.time}, state-processor {self.version}",
                *(text for title, columns, name in _TABLES for text in _table(title, columns, getattr(self, name))),
                *(f"{name} {unsearched}" for name in self.unsearched),
                f"\n{'Nothing is left' if self.is_clean else 'NOT CLEAN'}: {searched}",
            ]
        )


_PLACE: Final = ("operator_uid", "operator_uid_hash", "state_name")
_TABLES: Final = (
    ("Removed", ("operator", "state", "state_kind", "action", "count"), "removed"),
    ("Changed", ("operator", "state", "change", "written", "updated", "deleted"), "changes"),
    ("Rewritten files", ("operator", "reason"), "rewritten"),
    ("Left, as reading finds it", (*_PLACE, "key", "field", "count"), "remaining"),
    ("Left, as bytes of files", ("file", "count"), "remaining_files"),
    ("Searched as bytes, since it can't be decoded", (*_PLACE, "state_kind", "reason", "count"), "undecoded"),
)


def _table(title: str, columns: tuple[str, ...], rows: list[dict[str, Any]]) -> Iterator[str]:
    if rows:
        yield f"\n{title}:\n{render_records(columns, rows)}"
