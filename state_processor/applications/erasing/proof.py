"""The search of a new savepoint for what was erased, in the bytes of its files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from state_processor.backends.analysis.file_search import contents
from state_processor.backends.analysis.kept_tables import stored_tables, table_origins
from state_processor.backends.analysis.needles import Needle
from state_processor.backends.formats.sst.erased_table import ErasedKeys
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.snapshot_metadata import OperatorState

KeysOf = Callable[[OperatorState], Mapping[str, ErasedKeys]]
"""Returns the erased keys of an operator by state; nothing if its keys have another type."""

LOOKED_UP: Final = "the keys were looked up"
OTHER_TYPE: Final = "its keys have another type"


@dataclass
class FileProof:
    """The outcome of the search.

    ``files`` and ``bytes``: the number of searched files and parts, and their bytes.
    """

    found: list[dict[str, Any]] = field(default_factory=list)  # the files with a hit: ``file`` and ``count``
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
            self.found.append({"file": file, "count": count})
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
) -> Iterator[h.StreamStateHandle]:
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
            proof.found.append({"file": table.store.stream(table.file).describe(), "count": 1})
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
