"""Erasure of texts, keys and rows from all state of a snapshot, with a proof."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain
from os import PathLike, fspath
from typing import Any, Final, TypeAlias, Unpack

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor import OperatorIdentifier, WriteSummary
from state_processor.applications.erasing.erased_rows import Action, checked_actions, erased_row, holding
from state_processor.applications.erasing.erasure_report import ErasureReport
from state_processor.applications.finding.finding import search, sought, sought_keys, unfit_keys
from state_processor.applications.finding.state_search import Needle, search_batch, spellings
from state_processor.applications.sql.session import matching_rows
from state_processor.arrow import SavepointWriter
from state_processor.command_line import progress
from state_processor.errors import OptionError, StateProcessorError, UnsupportedFormatError
from state_processor.options import (
    BackendName,
    ChangedSavepointOptions,
    FormatName,
    ReadOptions,
    SnapshotAccess,
    spelled,
    takes_options,
)
from state_processor.snapshots import OperatorState, Snapshot, StreamStateHandle
from state_processor.states import (
    DOMAIN,
    LIST,
    MAP,
    SERVICE,
    ErasedKeys,
    OperatorDescription,
    OperatorStateReader,
    StateDescription,
    StateRequest,
    StatesToRead,
    StoredOperator,
    contents,
    edit_elements,
    erased_keys,
    is_python_state,
    json_text_of,
    open_state,
    operator_label,
    read_all,
    stored_tables,
    survey,
    table_origins,
    with_read_types,
)
from state_processor.support import attributes, without_none
from state_processor.write import SavepointBuild

KeysOf = Callable[[OperatorState], Mapping[str, ErasedKeys]]
"""Returns the erased keys of an operator by state; nothing if its keys have another type."""

LOOKED_UP: Final = "the keys were looked up"
OTHER_TYPE: Final = "its keys have another type"


@dataclass
class FileProof:
    """The outcome of the search.

    ``files`` and ``bytes``: the number of searched files and parts, and their bytes.
    """

    files_with_hits: list[dict[str, Any]] = field(default_factory=list)  # the files with a hit: ``file`` and ``count``
    # the ids of the operators whose files have a hit that another write removes: an entry that was replaced or deleted before
    operators: set[str] = field(default_factory=set)
    # tables that stay from the source savepoint and were not searched, except for new blocks: ``operator``, ``files``, ``bytes``,
    # and ``check``, the reason why they do not have an erased key
    looked_up: list[dict[str, Any]] = field(default_factory=list)
    files: int = 0
    bytes: int = 0

    def search(self, file: str, parts: Iterable[npt.NDArray[np.uint8]], needles: Sequence[Needle]) -> int:
        """Search in a file, and return the number of hits."""
        self.files, count = self.files + 1, 0
        for part in parts:
            self.bytes += len(part)
            count += sum(sum(needle.count_in(part).values()) for needle in needles)
        if count:
            self.files_with_hits.append({"file": file, "count": count})
        return count


def search_files(before: Snapshot, after: Snapshot, needles: Sequence[Needle], keys_of: KeysOf | None) -> FileProof:
    """Search the files of a new savepoint.

    ``before`` and ``after``: the source savepoint, and the new one. ``needles``: what to search for in bytes. ``keys_of``: if
    given, the tables that stay from the source savepoint are not searched. The keys are looked up in them.
    """
    proof = FileProof()
    skipped = set(_looked_up(before, after, needles, keys_of, proof)) if keys_of is not None else set()
    for content in contents(after, skipped=skipped) if needles else ():
        has_hit = proof.search(content.file, content.parts(), needles)
        if has_hit and content.operator is not None and keys_of is None:
            proof.operators.add(content.operator.operator_id)
    return proof


def _looked_up(
    before: Snapshot, after: Snapshot, needles: Sequence[Needle], keys_of: KeysOf, proof: FileProof
) -> Iterator[StreamStateHandle]:
    """Look up the keys in the tables that stay, with or without all entries, and yield the files of these tables.

    What is new in a table is searched as well.
    """
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    by_operator: dict[str, Mapping[str, ErasedKeys]] = {}
    for origin in table_origins(before, after):
        operator, table = origin.operator, origin.table
        if operator.operator_id not in by_operator:
            by_operator[operator.operator_id] = keys_of(operator)
        keys = by_operator[operator.operator_id]
        if keys and table.family not in keys:
            continue  # a state that the header does not have: it is searched
        if keys and table.has(keys[table.family]):
            proof.files_with_hits.append({"file": table.store.stream(table.file).describe(), "count": 1})
            proof.operators.add(operator.operator_id)
        check = LOOKED_UP if keys else OTHER_TYPE
        row = rows.setdefault((operator.operator_id, check), _row(operator, check))
        row["files"] += 1
        row["bytes"] += table.file.size
        if needles and not origin.is_kept:
            proof.search(f"{table.store.stream(table.file).describe()}, new blocks", origin.new_parts(), needles)
        yield table.stream
    proof.looked_up += rows.values()


def _row(operator: OperatorState, check: str) -> dict[str, Any]:
    return {"operator": operator.label, "files": 0, "bytes": 0, "check": check}


def rewritten_tables(before: Snapshot, after: Snapshot) -> Iterator[dict[str, Any]]:
    """Yield how many tables of each operator were written again, or left out, and how many stay."""
    table_counts = Counter(origin.operator.operator_id for origin in table_origins(before, after) if origin.is_kept)
    for operator in before.metadata.operators:
        tables, stay = len(list(stored_tables(before, operator))), table_counts[operator.operator_id]
        if stay < tables:
            yield {"operator": operator.label, "tables": tables - stay, "kept": stay}


Path: TypeAlias = str | PathLike[str]

_OPTIONS: Final = ReadOptions.of(flatten=False, metadata=True, nanos="string", row_kind=True)
_OF_OPERATOR: Final = replace(_OPTIONS, metadata=False)
NATIVE: Final = "native"
_TEXT_OF_KEY: Final = 4
"""The minimal length of a text key that is searched for in bytes. Shorter keys are parts of too many other values."""


@takes_options
def erase(
    path: Path,
    target: Path,
    *,
    remove: str | Sequence[str],
    text: str | Sequence[str] | None = None,
    key: Any = None,
    where: str | None = None,
    uid: str | OperatorIdentifier | None = None,
    state: str | None = None,
    format: FormatName = "canonical",
    backend: BackendName | None = None,
    overwrite: bool = False,
    **options: Unpack[ChangedSavepointOptions],
) -> ErasureReport:
    """Write a savepoint without some texts, keys or rows, and prove that they are gone.

    All operators change in one write. Then the new savepoint is read again, and all bytes of its files are searched,
    compressed bytes also after decompression. Files of RocksDB and ForSt keep replaced and deleted entries. Operators whose files
    contain erased data are rewritten.

    Parameters
    ----------
    path, target
        The directories of the source savepoint and of the new savepoint. The source savepoint is not changed.
    remove
        The allowed actions, one or several. The narrowest action that applies to a value is used: ``"fields"`` (fields of
        structs become null), ``"elements"`` (of lists, and of list and union state), ``"entries"`` (of maps, of broadcast state,
        and values of a key in one state), ``"keys"`` (all state and timers of a key in its operator).
    text
        Texts to erase. They are found by the same search as in :func:`state_processor.find`.
    key
        Keys to erase from all operators with keys of this type, given as for :func:`state_processor.find`. Requires the action
        ``"keys"``.
    where
        A SQL condition (DuckDB) on the columns of the state's rows. The selected rows are erased.
    uid, state
        The operator and the state of the condition.
    format, backend, overwrite
        As for :meth:`state_processor.SavepointWriter.write`.
    **options
        See :class:`~state_processor.options.groups.ChangedSavepointOptions`.

    Returns
    -------
    ErasureReport
        The report for an audit, as text or by :meth:`ErasureReport.to_json`. It is true if neither check finds anything.

    Raises
    ------
    OptionError
        Nothing to erase was given, or no chosen action applies to a value that was found. The message names the place.
    NotFoundError
        The operator or the state of the condition does not exist.
    """
    erasure = Erasure(
        path, checked_actions(remove), sought(text, None), sought_keys(key), where, uid, state, format, backend, options
    )
    erasure.prepare()
    erasure.refuse_unfit_keys()
    return erasure.write(target, overwrite=overwrite)


def check_keys(keys: Sequence[Any], actions: Collection[Action]) -> None:
    """Refuse keys without the action that removes them."""
    if keys and "keys" not in actions:
        raise OptionError(f"{spelled('key')} needs {spelled('remove', 'keys')}")


@dataclass(frozen=True)
class _Place:
    """A state of an operator that loses values."""

    operator: OperatorState
    state: str
    kind: str

    @property
    def uid(self) -> OperatorIdentifier:
        return _uid(self.operator)

    def __str__(self) -> str:
        return f"{operator_label(self.operator)}, state {self.state!r}"


@dataclass
class Erasure:
    """An erasure: its search in the source savepoint, its changes, and its proof. See :func:`erase`."""

    path: Path
    actions: frozenset[Action]
    needles: list[Needle]
    keys: list[Any]
    where: str | None
    uid: str | OperatorIdentifier | None
    state: str | None
    format: FormatName
    backend: BackendName | None
    options: Mapping[str, Any]
    removed: list[dict[str, Any]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not (self.needles or self.keys or self.where):
            raise OptionError(f"nothing to erase: add {spelled('text')}, {spelled('key')} or {spelled('where')}")
        if self.where is not None and (self.uid is None or self.state is None):
            raise OptionError(f"{spelled('where')} needs {spelled('uid')} and {spelled('state')}")
        if self.where is None and (self.uid is not None or self.state is not None):
            chosen = spelled("uid") if self.uid is not None else spelled("state")
            raise OptionError(f"{chosen} is for {spelled('where')}: texts and keys are erased from all operators")
        check_keys(self.keys, self.actions)
        self.access = SnapshotAccess.among(self.options)
        self.texts = list(map(str, self.needles))
        patterns = list(chain.from_iterable(needle.patterns for needle in self.needles))
        self._holds = holding(patterns, self.texts)
        self._build = SavepointBuild.from_existing(self.path, access=self.access, scratch=self.options.get("scratch"))
        self._writer = SavepointWriter(self._build)
        assert self._build.snapshot is not None  # the new savepoint starts from it
        self.snapshot = self._build.snapshot
        self._fitting: set[int] = set()

    def prepare(self) -> None:
        """Search in the source savepoint, and add the changes to the new one."""
        for operator in progress(self.snapshot.metadata.operators, "searching"):
            stored = StoredOperator(self.snapshot, operator)
            keys = [
                *(erased for variants in stored.surveyed[0].values() if (erased := self._erase_from(stored, variants[0]))),
                *self._given_keys(stored),
            ]
            if keys:
                self._delete_keys(operator, pa.concat_tables(keys))
        if self.where is not None:
            self._erase_rows()
        if self.refused:
            chosen = ", ".join(sorted(self.actions))
            raise OptionError(
                f"{spelled('remove')} is {chosen}, which does not apply where the text is: {'; '.join(self.refused)}"
            )

    def refuse_unfit_keys(self) -> None:
        """Refuse keys of another type than the keys of all operators."""
        unfit = [repr(key) for number, key in enumerate(self.keys) if number not in self._fitting]
        if unfit:
            raise unfit_keys(unfit, [self.snapshot])

    # Texts

    def _erase_from(self, stored: StoredOperator, state: StateDescription) -> pa.Table | None:
        """Erase texts from a state. Return the keys to remove from the operator."""
        if not self.needles:
            return None
        try:
            reader = open_state(stored, state.name, options=_OPTIONS if state.is_keyed else _OF_OPERATOR)
            place = _Place(stored.operator, state.name, state.kind)
            if isinstance(reader, OperatorStateReader):
                self._erase_elements(place, state, reader)
                return None
            batches = list(map(self._rows_with_text, read_all(reader.splits, reader.read, stored.snapshot.threads)))
        except StateProcessorError:
            return None  # the proof searches the bytes of this state, and names the state
        table = pa.Table.from_batches(batches, reader.schema)
        erased = self._erased(place, table)
        changed = without_none(erased.values())
        if changed:  # byte arrays of PyFlink are written as they were read
            of_python = is_python_state(state.name)
            schema = with_read_types(table.schema, StatesToRead.find(stored, state.name)) if of_python else table.schema
            self._writer.update_keyed_state(place.uid, place.state, pa.Table.from_pylist(changed, schema))
        keys = [position for position, row in erased.items() if row is None]
        return table.select(["key"]).take(pa.array(keys)) if keys else None

    def _rows_with_text(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.take(pa.array(self._positions(batch), pa.int64()))

    def _positions(self, batch: pa.RecordBatch) -> list[int]:
        positions = [rows for _, _, rows in search_batch(batch, self.needles, (DOMAIN, SERVICE))]
        return np.unique(np.concatenate(positions)).tolist() if positions else []

    def _erased(self, place: _Place, table: pa.Table) -> dict[int, dict[str, Any] | None]:
        """Return rows without erased values, by their positions; ``None`` for a row whose key or element is removed."""
        rows: dict[int, dict[str, Any] | None] = {}
        counts: dict[Action, int] = {}
        for position, row in enumerate(table.to_pylist()):
            erased = erased_row(row, place.kind, self._holds, self.actions)
            if erased.action is None:
                self.refused.append(f"{place}, key {row.get('key')!r}")
                continue
            counts[erased.action] = counts.get(erased.action, 0) + erased.count
            rows[position] = erased.row
        for action, count in counts.items():
            self._note(place, action, count)
        return rows

    def _note(self, place: _Place, action: Action, count: int) -> None:
        names = {"operator": place.operator.label, "state": place.state, "state_kind": place.kind}
        self.removed.append({**names, "action": action, "count": count})

    def _erase_elements(self, place: _Place, state: StateDescription, reader: OperatorStateReader) -> None:
        """Erase texts from operator state. Only the elements that change are encoded; the others keep their bytes."""
        assert isinstance(state, OperatorDescription)
        elements: dict[tuple[int, int], dict[str, Any] | None] = {}
        for split in reader.splits():
            start = 0
            for batch in reader.read(split):
                positions = self._positions(batch)
                erased = self._erased(place, pa.Table.from_batches([batch]).take(pa.array(positions, pa.int64())))
                elements |= {(split.subtask, start + positions[at]): row for at, row in erased.items()}
                start += batch.num_rows
        if elements:
            with self._build.change(place.uid, existing=True) as draft:
                edit_elements(draft, state, reader, elements)

    # Keys

    def _given_keys(self, stored: StoredOperator) -> Iterator[pa.Table]:
        """Yield each given key that the operator has, as a table of one row."""
        for number, key in enumerate(self.keys):
            for name, variants in stored.surveyed[0].items():
                rows = _of_key(stored, name, key) if variants[0].is_keyed else None
                if rows is None:
                    continue
                self._fitting.add(number)
                if rows.num_rows:
                    self._note(_Place(stored.operator, name, variants[0].kind), "keys", rows.num_rows)
                    yield rows.slice(0, 1)

    def _delete_keys(self, operator: OperatorState, keys: pa.Table) -> None:
        distinct = list({repr(row): row for row in keys.to_pylist()}.values())
        self._writer.delete_keys(_uid(operator), pa.Table.from_pylist(distinct, keys.schema))

    # Condition

    def _erase_rows(self) -> None:
        """Erase the rows of a state that a condition selects."""
        assert self.uid is not None
        assert self.state is not None
        stored = self._of_condition(self.snapshot)
        (kind,) = {s.kind for s in stored.surveyed[0].get(self.state, [])} or {""}
        place, rows = _Place(stored.operator, self.state, kind), self._selected(self.path, stored.operator)
        if not rows.num_rows:
            return
        if "keys" in self.actions:
            self._delete_keys(place.operator, rows.select(["key"]))
            self._note(place, "keys", len(set(map(repr, rows["key"].to_pylist()))))
        elif kind == MAP and "entries" in self.actions:
            self._writer.delete_map_entries(place.uid, place.state, rows)
            self._note(place, "entries", rows.num_rows)
        elif kind != LIST and "entries" in self.actions:
            identity = [name for name in ("key", "window", "namespace") if name in rows.column_names]
            self._writer.delete_keys(place.uid, rows.select(identity), place.state, "key")
            self._note(place, "entries", rows.num_rows)
        else:
            self.refused.append(f"{place} of kind {kind}, rows of a condition")

    def _of_condition(self, snapshot: Snapshot) -> StoredOperator:
        identifier = OperatorIdentifier.of(self.uid or "")
        return StoredOperator.find(snapshot, identifier.uid, identifier.uid_hash)

    def _selected(self, path: Path, operator: OperatorState) -> pa.Table:
        identifier = OperatorIdentifier.for_uid_hash(operator.operator_id)
        request = StateRequest(identifier, self.state, None, None, {"nanos": "string", **self.access.values()})
        return matching_rows(request.open_path(path), str(self.where)).read_all()

    # Proof

    def write(self, target: Path, *, overwrite: bool) -> ErasureReport:
        """Write the new savepoint, check it, and return the report."""
        from state_processor import __version__

        summary = self._written(target, overwrite=overwrite)
        proof = self._search_files(target)
        if self._rewrite(proof.operators):
            summary = self._write(target, overwrite=True)
            proof = self._search_files(target)
        after = self.access.open(target)
        remaining, undecoded = self._read_again(target)
        rewritten = list(rewritten_tables(self.snapshot, after)) if self.format == NATIVE else []
        return ErasureReport(
            fspath(self.path), fspath(target), self.snapshot.digest, after.digest,
            datetime.now(UTC).isoformat(timespec="seconds"), __version__, self._sought, sorted(self.actions),
            self.removed, list(_changes(summary)), rewritten, remaining, proof.files_with_hits, undecoded, self._unsearched,
            proof.looked_up, proof.files, proof.bytes,
        )  # fmt: skip

    def _written(self, target: Path, *, overwrite: bool) -> WriteSummary:
        """Write the new savepoint. Erased entries leave the files of RocksDB that stay."""
        changed = {operator.operator_id for operator in self.snapshot.metadata.operators if self._erases_in_files(operator)}
        try:
            return self._write(target, overwrite=overwrite)
        except UnsupportedFormatError:
            if not self._rewrite(changed):
                raise
        return self._write(target, overwrite=overwrite)

    def _write(self, target: Path, *, overwrite: bool) -> WriteSummary:
        return self._writer.write(target, overwrite=overwrite, format=self.format, backend=self.backend)

    def _erases_in_files(self, operator: OperatorState) -> bool:
        """Set that erased entries of an operator leave its files, not only the state; return whether it has such entries."""
        with self._build.change(_uid(operator), existing=True) as draft:
            changes = draft.changes
            changes.erases = bool(changes.deletions or changes.state_rows)
            return changes.erases

    def _rewrite(self, operators: Collection[str]) -> bool:
        """Write the stores of operators whose files contain erased data again, all of them; return whether there are any.

        Entries that were replaced or deleted before the erasure are in the files, but not in the state.
        """
        rewritten = False
        for operator in self.snapshot.metadata.operators if self.format == NATIVE else ():
            if operator.operator_id in operators and next(stored_tables(self.snapshot, operator), None) is not None:
                with self._build.change(_uid(operator), existing=True) as draft:
                    draft.changes.rewrites = rewritten = True
        return rewritten

    def _search_files(self, target: Path) -> FileProof:
        """Search in the bytes of the new savepoint. Without texts, keys are looked up in tables that stay."""
        needles = [*self.needles, *self._needles_of_keys()]
        after = self.access.open(target)

        def keys_of(operator: OperatorState) -> dict[str, ErasedKeys]:
            return erased_keys(survey(after, operator)[0], operator, [list(spellings(key)) for key in self.keys])

        only_keys = bool(self.keys) and not self.needles
        return search_files(self.snapshot, after, needles, keys_of if only_keys else None)

    @property
    def _sought(self) -> dict[str, list[str]]:
        return sought_texts(self.needles, self.keys, self.where)

    def _needles_of_keys(self) -> Iterator[Needle]:
        for key in self.keys:
            if isinstance(key, str) and len(key) >= _TEXT_OF_KEY:
                yield Needle.text(key)
            elif isinstance(key, int) and Needle.number(key).patterns:
                yield Needle.number(key)

    @property
    def _unsearched(self) -> list[str]:
        searched = set(map(str, self._needles_of_keys()))
        return [*(f"key {_key_text(key)}" for key in self.keys if str(key) not in searched), *(["where"] if self.where else [])]

    def _read_again(self, target: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Read the new savepoint and search in its rows. Return the hits, and the state that can't be decoded."""
        remaining: list[dict[str, Any]] = []
        undecoded: list[dict[str, Any]] = []
        keys = [self.keys[number] for number in sorted(self._fitting)]
        if self.needles or keys:
            hits = search([target], self.needles, keys, self.access.values())
            remaining, undecoded = hits.table.to_pylist(), hits.undecoded.to_pylist()
        if self.where is not None:
            count = self._selected(target, self._of_condition(self.access.open(target)).operator).num_rows
            place = {"operator_uid": str(self.uid), "operator_uid_hash": "", "state_name": self.state, "key": None}
            remaining += [{**place, "field": self.where, "count": count}] if count else []
        return remaining, undecoded


def sought_texts(needles: Sequence[Needle], keys: Sequence[Any], condition: str | None) -> dict[str, list[str]]:
    """Return the texts, keys and the condition for reports."""
    texts = {"text": list(map(str, needles)), "key": list(map(_key_text, keys)), "where": [condition] if condition else []}
    return {name: values for name, values in texts.items() if values}


def _changes(summary: WriteSummary) -> Iterator[dict[str, Any]]:
    """Yield the changes of each state, as the summary of the write counts them."""
    for operator in summary.operators:
        for change in operator.changes:
            counts = attributes(change.counts, ("written", "updated", "deleted"))
            yield {"operator": operator.uid or operator.uid_hash, "state": change.state, "change": change.change, **counts}


def _uid(operator: OperatorState) -> OperatorIdentifier:
    return OperatorIdentifier.of(operator.uid) if operator.uid else OperatorIdentifier.for_uid_hash(operator.operator_id)


def _of_key(stored: StoredOperator, name: str, key: Any) -> pa.Table | None:
    for spelling in spellings(key):
        try:
            reader = open_state(stored, name, options=replace(_OPTIONS, keys=(spelling,), metadata=False))
        except OptionError:  # the operator's keys have another type
            continue
        return pa.Table.from_batches(read_all(reader.splits, reader.read, stored.snapshot.threads), reader.schema).select(["key"])
    return None


def _key_text(key: Any) -> str:
    return key if isinstance(key, str) else json_text_of(key)
