"""Checks of names and types of columns, when a method of the writer is called and before rows are read."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import get_close_matches
from typing import Final

import pyarrow as pa

from state_processor.backends.formats.row_layout import KEY_GROUP_COLUMN
from state_processor.backends.formats.row_shapes import LAST_ACCESS, SUBTASK
from state_processor.backends.state.descriptions import KeyedDescription
from state_processor.backends.write.entry_encoder import NAMESPACES, compile_entries
from state_processor.serializers.errors import InvalidRowError, OptionError, UnsupportedFormatError
from state_processor.serializers.kernel.encode.conversion import bind
from state_processor.serializers.kernel.encode.program import EncodeOptions
from state_processor.serializers.kryo.nested_kryo import for_flink
from state_processor.serializers.third_party import third_party_errors
from state_processor.write.row_protocol import OperatorRows

METADATA: Final = (KEY_GROUP_COLUMN, SUBTASK, LAST_ACCESS)
"""Columns that reading adds on request; the first two follow from the key, and are left alone."""

_CASE: Final = "spark.sql.caseSensitive"


_NAMED: Final[ContextVar[tuple[str, ...]]] = ContextVar("named", default=())


@contextmanager
def naming(where: str) -> Iterator[None]:
    """Put the operator, or operator and state, in front of messages of errors that lack it."""
    token = _NAMED.set((*_NAMED.get(), where))
    try:
        yield
    except (InvalidRowError, OptionError, UnsupportedFormatError) as problem:
        if where in str(problem):
            raise
        raise type(problem)(f"{where}: {problem}") from problem
    finally:
        _NAMED.reset(token)


def later_message(message: str) -> str:
    """Return the message of an error that is raised after the blocks of :func:`naming`, with their names in front."""
    return ": ".join((*_NAMED.get(), message))


def check_distinct(rows: OperatorRows) -> None:
    """Refuse columns with the same name.

    Raises
    ------
    InvalidRowError
        If columns have the same name, or names that differ in case only where case does not count.
    """
    names = rows.schema.names
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name if rows.case_sensitive else name.lower(), name)
        if sum(n == name for n in names) > 1:
            raise InvalidRowError(f"there are several columns {name!r}; drop or rename all but one")
        if other != name:
            raise InvalidRowError(
                f"the columns {other!r} and {name!r} differ in case only, which Spark ignores ({_CASE} is false); rename one"
            )


def require(names: Collection[str], columns: Collection[str]) -> None:
    """Refuse rows that lack columns.

    Raises
    ------
    InvalidRowError
        If a column is missing; the message names the nearest.
    """
    missing = [c for c in columns if c not in names]
    if missing:
        listed = " and ".join(map(repr, missing))
        near = _nearest(missing[0], [n for n in names if n not in {*columns}]) or " Rename a column."
        raise InvalidRowError(f"there is no column {listed}; the rows have {', '.join(names) or 'no columns'}.{near}")


def refuse_others(names: Collection[str], known: Collection[str], hint: str = "") -> None:
    """Refuse rows with columns that would be ignored, except the columns of :data:`METADATA`.

    Parameters
    ----------
    names
        The columns of the rows.
    known
        The columns that rows of this shape may have.
    hint
        What to do, where it is more than to drop or rename the column.

    Raises
    ------
    InvalidRowError
        If there are others; the message names the nearest that is known.
    """
    others = [n for n in names if n not in known and n not in METADATA]
    if others:
        listed = " and ".join(map(repr, others))
        advice = hint or "drop or rename it"
        raise InvalidRowError(
            f"column {listed} would be ignored; expected are {', '.join(known)}: {advice}.{_nearest(others[0], known)}"
        )


def _nearest(name: str, names: Collection[str]) -> str:
    by_lower = {n.lower(): n for n in names}
    near = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return f" Did you mean {by_lower[near[0]]!r}?" if near else ""


def check_types(
    state: KeyedDescription, schema: pa.Schema, columns: Mapping[str, str], max_parallelism: int, flink_major: int
) -> None:
    """Refuse columns whose types do not fit a keyed state.

    Parameters
    ----------
    state
        The state that is written from the rows.
    schema
        The columns of the rows.
    columns
        The columns of the rows by the encoder's names.
    max_parallelism
        Of the operator.
    flink_major
        The major version of Flink that the serializers are for.

    Raises
    ------
    InvalidRowError
        If a type does not fit; the message names state and column.
    """
    require(schema.names, columns.values())
    rows = pa.schema([(name, schema.field(column).type) for name, column in columns.items()])
    where = f"state {state.name!r}"
    with naming(where), third_party_errors(where, parts=state.serializers.values()):
        compile_entries(for_flink(state, flink_major), rows, max_parallelism, EncodeOptions(), columns)


def check_key_types(state: KeyedDescription, schema: pa.Schema, columns: Mapping[str, str]) -> None:
    """Refuse columns whose types do not fit, of rows that identify entries: keys, namespaces and keys of maps.

    Raises
    ------
    InvalidRowError
        If a type does not fit; the message names state and column.
    """
    roles = state.serializers | dict.fromkeys(NAMESPACES, state.namespace)
    where = f"state {state.name!r}"
    with naming(where), third_party_errors(where, parts=state.serializers.values()):
        for role, column in columns.items():
            bind(roles[role], schema.field(column).type, column, as_key=True)
