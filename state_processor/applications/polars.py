"""States as lazy frames of Polars, which read the columns, keys and rows that a query needs.

Needs the package polars: ``pip install 'state-processor[polars]'``.

Examples
--------
>>> import polars as pl
>>> import state_processor as sp
>>> totals = sp.polars.scan_state("/savepoints/savepoint-1", "orders", "total")  # doctest: +SKIP
>>> totals.filter(pl.col("key") == "amelia").collect()  # doctest: +SKIP
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, Final, TypeAlias, Unpack

import pyarrow as pa

from state_processor import OperatorIdentifier
from state_processor.applications.sql.key_conditions import Values, both, either
from state_processor.options import StateSnapshotOptions, takes_options
from state_processor.states import KEY_COLUMN, ArrowSchema, StateRequest, columns_of
from state_processor.support import require

if TYPE_CHECKING:
    import polars as pl

__all__ = ["scan_state"]

Path: TypeAlias = str | PathLike[str]

_KEY_COLUMN: Final = {"Column": KEY_COLUMN}


@takes_options
def scan_state(
    path: Path,
    uid: str | OperatorIdentifier,
    state: str | None = None,
    *,
    kind: str | None = None,
    schema: ArrowSchema | None = None,
    **options: Unpack[StateSnapshotOptions],
) -> pl.LazyFrame:
    """Return a lazy frame of a state of any kind.

    The call opens the snapshot and checks the arguments. Polars reads rows when it collects the frame. Columns that the query
    does not use are skipped. ``==`` and ``is_in`` on a column ``key`` of text, whole numbers or booleans look up these keys: only
    their key groups are read. ``head`` and ``limit`` stop reading. To skip fields in structs as well, pass ``columns``. A
    warning names states that the rows leave out.

    Parameters
    ----------
    path, uid, state, kind, schema
        As for :func:`state_processor.arrow.read_state`.
    **options
        See :class:`~state_processor.options.groups.StateSnapshotOptions`.

    Raises
    ------
    OptionError
        Polars is not installed.
    StateProcessorError
        The errors of :func:`state_processor.arrow.read_state`. Polars wraps errors of reading rows in its ``ComputeError``.
    """
    polars = require("polars", "polars", "lazy frames")
    register_io_source = require("polars.io.plugins", "polars", "lazy frames").register_io_source

    scan = StateRequest(OperatorIdentifier.of(uid), state, kind, schema, options).open_path(path)
    for note in scan.notes:  # frames of Polars don't have comments
        warnings.warn(note, stacklevel=3)

    def frames(
        columns: list[str] | None, predicate: pl.Expr | None, limit: int | None, _batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        names = scan.schema.names if columns is None else columns
        needed = names if predicate is None else list(dict.fromkeys([*names, *predicate.meta.root_names()]))
        schema = columns_of(scan.schema, needed or scan.schema.names[:1])
        for batch in scan.read(schema, scan.narrowing_keys(_allowed_keys(predicate))):
            frame = polars.DataFrame(batch)
            if predicate is not None:
                frame = frame.filter(predicate)
            frame = frame.select(names) if columns is not None else frame
            yield frame if limit is None else frame.head(limit)
            if limit is not None:
                limit -= frame.height
                if limit <= 0:
                    return

    lazy: pl.LazyFrame = register_io_source(frames, schema=polars.DataFrame(scan.schema.empty_table()).schema, is_pure=True)
    return lazy


def _allowed_keys(predicate: pl.Expr | None) -> Values:
    """Return the values that a condition of Polars allows the column ``key`` to have, by the condition's form as JSON."""
    if predicate is None:
        return None
    import polars

    try:
        return _allowed(json.loads(predicate.meta.serialize(format="json")))
    except polars.exceptions.PolarsError:  # the condition can't be written as JSON, such as one with functions of Python
        return None


def _allowed(node: Any) -> Values:
    if not isinstance(node, Mapping):
        return None
    match node:
        case {"BinaryExpr": {"left": left, "op": "Eq", "right": right}}:
            value = _literal(right) if left == _KEY_COLUMN else _literal(left) if right == _KEY_COLUMN else None
            return None if value is None else frozenset({value})
        case {"BinaryExpr": {"left": left, "op": "And" | "LogicalAnd", "right": right}}:
            return both(_allowed(left), _allowed(right))
        case {"BinaryExpr": {"left": left, "op": "Or" | "LogicalOr", "right": right}}:
            return either(_allowed(left), _allowed(right))
        case {"Function": {"input": [column, {"Literal": {"Scalar": {"List": list() as stream}}}], "function": function}}:
            is_in = isinstance(function, Mapping) and "IsIn" in (function.get("Boolean") or ())
            return _members(bytes(stream)) if is_in and column == _KEY_COLUMN else None
    return None


def _literal(node: Any) -> Any:
    """Return the value of a literal of text, a whole number or a boolean; ``None`` for all others."""
    if not (isinstance(node, Mapping) and isinstance(node.get("Literal"), Mapping)):
        return None
    kinds = node["Literal"].get("Scalar", node["Literal"].get("Dyn"))
    value = next(iter(kinds.values()), None) if isinstance(kinds, Mapping) and len(kinds) == 1 else None
    is_number = isinstance(value, int) and next(iter(kinds)).startswith(("Int", "UInt", "Boolean"))
    return value if (isinstance(value, str) and "String" in kinds) or is_number else None


def _members(stream: bytes) -> Values:
    """Return the members of a list from its stream of Arrow; ``None`` if one is neither text nor number."""
    members = pa.ipc.open_stream(stream).read_all().column(0).to_pylist()
    return frozenset(members) if all(isinstance(m, (str, int)) for m in members) else None
