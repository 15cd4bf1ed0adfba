"""Search for a person, or anything else, in all state of snapshots."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from os import PathLike, fspath
from typing import Any, Final, TypeAlias, Unpack

import pyarrow as pa

from state_processor.applications.finding.state_search import HITS, UNDECODED, Needle, StateSearch, merged
from state_processor.command_line import Answer, progress, render_records
from state_processor.errors import OptionError
from state_processor.options import SnapshotAccess, SnapshotOptions, spelled, takes_options
from state_processor.snapshots import Snapshot, noted_errors, refuse_undecodable
from state_processor.states import KeyedDescription, survey

Path: TypeAlias = str | PathLike[str]
_SNAPSHOT: Final = pa.field("snapshot", pa.string())
SHOWN_PLACES: Final = 20
"""Places that are shown one by one; more places are summarized by state."""
_MOST_NAMED: Final = 3
"""Operators and errors in a message."""
STATE_COLUMNS: Final = ("operator", "state", "places", "count")
PLACE_COLUMNS: Final = ("operator", "state", "key", "field", "sought", "count")
UNDECODED_COLUMNS: Final = ("operator", "state", "reason", "count")
_SNAPSHOT_COLUMNS: Final = ("job", "snapshot")


@dataclass(frozen=True, slots=True, repr=False)
class Findings:
    """The outcome of a search; true if anything was found.

    Attributes
    ----------
    table
        A row for each place: ``snapshot``, ``operator_uid``, ``operator_uid_hash``, ``state_name``, ``state_kind``, ``key`` (the
        key of the entry as text, JSON for keys that are neither text nor numbers; null where there is none), ``field`` (the path
        of the field, null in bytes that are not decoded), ``sought`` (what was found) and ``count`` (values with it).
    undecoded
        State that was searched as bytes: ``snapshot``, the operator and the state as above, ``reason``, and ``count``, the number
        of occurrences. Text in an encoding or a compression of the job's own can't be found there.
    """

    table: pa.Table
    undecoded: pa.Table

    @property
    def answer(self) -> Answer:
        """Whether anything was found. If nothing was, and a state can't be decoded, not everything could be checked."""
        is_absent = not self
        return Answer.of(wrong=is_absent and not self.undecoded.num_rows, unchecked=is_absent)

    def __bool__(self) -> bool:
        return bool(self.table.num_rows)

    def by_state(self) -> list[dict[str, Any]]:
        """Return ``operator``, ``state``, ``places`` and ``count`` (values) of each state in which something was found."""
        groups: dict[tuple[str, str], list[int]] = {}
        for row in map(_display_row, self.table.to_pylist()):
            groups.setdefault((row["operator"], row["state"]), []).append(row["count"])
        rows = []
        for (operator, state), counts in groups.items():
            place = {"operator": operator, "state": state}
            rows.append({**place, "places": len(counts), "count": sum(counts)})
        return rows

    @property
    def snapshot_columns(self) -> tuple[str, ...]:
        """The columns that name the snapshot of a row."""
        return tuple(name for name in _SNAPSHOT_COLUMNS if name in self.table.schema.names)

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        rows = list(map(_display_row, self.table.slice(0, SHOWN_PLACES).to_pylist()))
        lines = [render_records((*self.snapshot_columns, *PLACE_COLUMNS), rows) if rows else "Nothing found"]
        if self.table.num_rows > SHOWN_PLACES:
            lines += ["", f"The first {SHOWN_PLACES} of {self.table.num_rows} places. All of them:"]
            lines.append(render_records(STATE_COLUMNS, self.by_state()))
        unread = list(map(_display_row, self.undecoded.to_pylist()))
        if unread:
            lines += ["", "Searched as bytes:", render_records((*self.snapshot_columns, *UNDECODED_COLUMNS), unread)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from state_processor.command_line import html_table

        columns = STATE_COLUMNS if self.table.num_rows > SHOWN_PLACES else (*self.snapshot_columns, *PLACE_COLUMNS)
        rows = self.by_state() if self.table.num_rows > SHOWN_PLACES else map(_display_row, self.table.to_pylist())
        unread = list(map(_display_row, self.undecoded.to_pylist()))
        parts = [html_table(columns, rows, caption="" if self else "Nothing found")]
        if unread:
            parts.append(html_table((*self.snapshot_columns, *UNDECODED_COLUMNS), unread, caption="Searched as bytes"))
        return "".join(parts)


def _display_row(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **row,
        "operator": row["operator_uid"] or row["operator_uid_hash"],
        "state": row["state_name"] or row["state_kind"],
    }


@takes_options
def find(
    paths: Path | Sequence[Path],
    *,
    text: str | Sequence[str] | None = None,
    number: float | Sequence[float] | None = None,
    key: Any = None,
    **options: Unpack[SnapshotOptions],
) -> Findings:
    """Search in all state of snapshots: keyed state, windows, timers, operator state, raw state, in-flight data, coordinators.

    Decoded values are searched at every depth: keys, map keys, elements and fields. Bytes are searched for the text as UTF-8,
    modified UTF-8, UTF-16, Latin-1 and as Flink's ``StringValue`` and Kryo write text.

    Parameters
    ----------
    paths
        A directory of a savepoint or checkpoint, or several: paths or URLs.
    text
        A text, or several: any part of a text or of bytes, with this case.
    number
        A number, or several: a whole value, and texts that are this number. In bytes, numbers of four digits or more are searched
        as text, and numbers from 16,777,216 also as eight bytes.
    key
        A key of keyed state, or a list of keys; keys that are not text may be JSON. Only the key groups of the keys are read, and
        the entries of the keys are counted.
    **options
        See :class:`~state_processor.options.groups.SnapshotOptions`.

    Returns
    -------
    Findings
        The places, as tables of Arrow.

    Raises
    ------
    OptionError
        Nothing is sought, or no operator has keys of the type of ``key``.
    NotASnapshotError, CorruptSnapshotError, MissingFileError
        A path is not a snapshot, or the snapshot is damaged.
    """
    return search(_listed(paths, (str, PathLike)), sought(text, number), sought_keys(key), options)


def sought(text: str | Sequence[str] | None, number: float | Sequence[float] | None) -> list[Needle]:
    """Return texts and numbers to search for."""
    return [
        *map(Needle.text, _listed(text, str)),
        *map(Needle.number, _listed(number, (int, float))),
    ]


def sought_keys(key: Any) -> list[Any]:
    """Return keys to search for. A list has several keys; a tuple is one key with several fields."""
    return key if isinstance(key, list) else [] if key is None else [key]


def check_sought(needles: Sequence[Needle], keys: Sequence[Any]) -> None:
    """Refuse a search for nothing."""
    if not needles and not keys:
        raise OptionError(f"nothing to find: add {spelled('text')}, {spelled('number')} or {spelled('key')}")


def search(
    paths: Sequence[Path],
    needles: Sequence[Needle],
    keys: Sequence[Any],
    options: Mapping[str, Any],
    failures: dict[str, str] | None = None,
) -> Findings:
    """Search in snapshots; see :func:`find`.

    With ``failures``, which receives the errors of snapshots by path, the search goes on with the next snapshot. Hits before the
    error count. A key without a fitting operator is an error only without failures.
    """
    check_sought(needles, keys)
    access, parts, undecoded, fitting = SnapshotAccess.of(**options), [], [], set[int]()
    snapshots = []
    for path in paths:
        with noted_errors(fspath(path), failures):
            refuse_undecodable(fspath(path))  # the tables have it
            search_ = StateSearch(access.open(path), needles, keys)
            snapshots.append(search_.snapshot)
            try:
                for operator in progress(search_.snapshot.metadata.operators, "searching"):
                    search_.search(operator)
            finally:
                fitting |= search_.fitting_keys
                parts.append(_of_snapshot(path, merged(search_.hits)))
                undecoded.append(_of_snapshot(path, pa.Table.from_pylist(search_.undecoded, UNDECODED)))
    unfit = [repr(key) for number, key in enumerate(keys) if number not in fitting]
    if unfit and not failures:
        raise unfit_keys(unfit, snapshots)
    return Findings(_joined(HITS, parts), _joined(UNDECODED, undecoded))


def _joined(schema: pa.Schema, tables: Iterable[pa.Table]) -> pa.Table:
    return pa.concat_tables([_of_snapshot("", schema.empty_table()), *tables])


def unfit_keys(keys: Iterable[str], snapshots: Iterable[Snapshot]) -> OptionError:
    """Return the error of keys that no operator can have. It names the types of the keys, and states that can't be read.

    ``keys``: the keys as text.
    """
    types: dict[str, dict[str, None]] = {}
    unread: dict[str, None] = {}
    for snapshot in snapshots:
        for operator in snapshot.metadata.operators:
            states, unread_states = survey(snapshot, operator)
            for state in chain.from_iterable(states.values()):
                if isinstance(state, KeyedDescription):
                    types.setdefault(str(state.key), {})[operator.label] = None
            unread |= dict.fromkeys(str(state.error) for state in unread_states)
    places = "; ".join(f"{type_} in {', '.join(list(labels)[:_MOST_NAMED])}" for type_, labels in types.items())
    stored = f"the keys are {places}" if places else "keyed state can't be read" if unread else "there is no keyed state"
    rest = f". State that can't be read: {'; '.join(list(unread)[:_MOST_NAMED])}" if unread else ""
    return OptionError(f"key: no operator has keys of the type of {', '.join(keys)}: {stored}{rest}")


def _of_snapshot(path: Path, table: pa.Table) -> pa.Table:
    return table.add_column(0, _SNAPSHOT, pa.repeat(pa.scalar(fspath(path), pa.string()), table.num_rows))


def _listed(value: Any, kinds: Any) -> list[Any]:
    return [] if value is None else [value] if isinstance(value, kinds) else list(value)
