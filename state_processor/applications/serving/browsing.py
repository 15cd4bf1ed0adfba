"""The page in the browser, and its answers: rows with types, keys, sizes, differences, SQL. Long values are shortened."""

from __future__ import annotations

import json
import pkgutil
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any, Final

import pyarrow as pa

from state_processor import OperatorIdentifier
from state_processor.applications.serving.following import READING, Followed, ServedSnapshot
from state_processor.applications.serving.limits import Limits
from state_processor.applications.serving.queries import NOTES, QueryProcesses
from state_processor.arrow import Rows
from state_processor.command_line import json_value
from state_processor.errors import NotFoundError, OptionError
from state_processor.snapshots import OperatorState, snapshots_table
from state_processor.snapshots import operators as operators_table
from state_processor.snapshots import states as states_table
from state_processor.states import (
    SIZE_IN_BYTES,
    TIMER_KIND,
    SizeReport,
    StateRequest,
    comments_of,
    find_operator,
    parse_json,
    spark_ddl,
)
from state_processor.support import map_values, without_keys, without_none


def operators(served: ServedSnapshot) -> dict[str, Any]:
    """Return the operators of a snapshot."""
    return _answer(served, operators=operators_table(served.snapshot).to_pylist())


def states(served: ServedSnapshot, uid: str) -> dict[str, Any]:
    """Return the states of an operator."""
    operator = _served_operator(served, uid)
    rows = [row for row in states_table(served.snapshot).to_pylist() if row["operator_uid_hash"] == operator.operator_id]
    return _answer(served, operator=uid, states=rows)


def contents(served: ServedSnapshot, uid: str, key: str, state: str | None, limits: Limits) -> dict[str, Any]:
    """Return the states and timers of a key in an operator.

    ``key``: the key as text: see :func:`key_of`. ``state``: one state; ``None`` for all, and the timers. ``limits``: the limit of
    rows.
    """
    parsed_key = key_of(served, uid, key)
    contents_of_key = served.look_up(uid, state).find(parsed_key)
    if not contents_of_key:
        subject = f"the operator {uid!r}" if state is None else f"the state {state!r} of the operator {uid!r}"
        raise NotFoundError(f"{subject} does not have the key {key} in checkpoint {served.checkpoint_id}")
    tables = contents_of_key.tables()
    limits.check_rows(sum(table.num_rows for table in tables.values()))
    rows = {name: table.drop_columns(["key"]).to_pylist() for name, table in tables.items()}
    timers = {"timers": rows.pop("timers", [])} if contents_of_key.timers is not None else {}
    return _answer(served, operator=uid, key=contents_of_key.key, states=rows, **timers)


def key_of(served: ServedSnapshot, uid: str, text: str) -> Any:
    """Return a key from its text in a path. Keys of text are the text. Other keys are JSON, or text such as a date."""
    if served.key_type(uid) == "STRING":
        return text
    try:
        return parse_json(text)
    except ValueError:
        return text


def _served_operator(served: ServedSnapshot, uid: str) -> OperatorState:
    operator = served.operator(uid)
    return find_operator(served.snapshot, operator.uid, operator.uid_hash)


def _answer(served: ServedSnapshot, **content: Any) -> dict[str, Any]:
    answer: dict[str, Any] = json_value({"checkpoint_id": served.checkpoint_id, **content})
    return answer


Answer = dict[str, Any]
Read = Callable[[ServedSnapshot], Answer]
ReadListed = Callable[[str | None], Answer]
"""A function that reads an answer without an open snapshot. Its argument is the path of a snapshot; ``None`` for the newest."""

_PAGE: Final = 50
_MOST_ROWS: Final = 500
_SQL_ROWS: Final = 1000
_LONGEST: Final = 4096
"""Characters of a value that the page shows."""
_MOST_ELEMENTS: Final = 1000
_EXACT: Final = 1 << 53
"""Larger numbers lose digits in a browser: they are text."""
_LARGEST_PAGE: Final = 32 << 20
"""Bytes of rows that become Python objects at a time."""
_LARGEST: Final = 1000
"""Rows of a chart."""


class Browsing:
    """The answers for the page.

    ``followed``: the snapshots. ``limits``: limits of requests.
    """

    def __init__(self, followed: Followed, limits: Limits) -> None:
        self._followed = followed
        self._limits = limits
        self._queries: QueryProcesses | None = None

    def read(self, segments: list[str], query: Mapping[str, str]) -> Read | None:
        """Return the function that reads the answer of a path below ``/browse``; ``None`` if the path is unknown.

        Names and keys are parameters of the query: a browser changes ``.`` and ``..`` in paths.
        """
        uid = query.get("uid", "")
        reads: dict[str, Read] = {
            "states": lambda served: states(served, uid),
            "rows": lambda served: self._rows(served, uid, query.get("state", ""), query),
            "timers": lambda served: self._rows(served, uid, None, query),
            "key": lambda served: self._key(served, uid, query.get("key", "")),
            "sizes": lambda served: self._sizes(served, uid, query.get("by", "state")),
            "differences": lambda served: self._differences(served, query),
            "sql": lambda served: self._sql(served, query.get("query", "")),
        }
        return reads.get(segments[0]) if len(segments) == 1 else None

    def read_listed(self, segments: list[str]) -> ReadListed | None:
        """Return the function that reads the answer of a path for snapshots that may not open; ``None`` for other paths."""
        reads: dict[str, ReadListed] = {"snapshots": self._snapshots, "explain": self._explain}
        return reads.get(segments[0]) if len(segments) == 1 else None

    def _snapshots(self, path: str | None) -> Answer:
        rows = snapshots_table(self._followed.listed).to_pylist()
        newest = self._followed.newest_path
        selected = newest if path is None else self._followed.listed_at(path).path
        return {"path": selected, "newest": newest, "opens": self._followed.can_be_opened, "snapshots": browsable(rows)}

    def _explain(self, path: str | None) -> Answer:
        from state_processor.applications.explain.explaining import explain  # only this view needs the rules

        snapshot = self._followed.newest_path if path is None else self._followed.listed_at(path).path
        options = self._followed.access.values()
        *causes, rest = explain(snapshot, **options).records()
        return {"path": snapshot, "causes": browsable(json_value(causes)), **browsable(json_value(rest))}

    def _rows(self, served: ServedSnapshot, uid: str, state: str | None, query: Mapping[str, str]) -> Answer:
        offset, count = _number(query, "offset", 0, 1 << 62), _number(query, "count", _PAGE, _MOST_ROWS)
        kind = TIMER_KIND if state is None else None
        request = StateRequest(OperatorIdentifier.of(uid), state, kind, None, READING)
        scan = request.open(request.find(served.snapshot))
        batches = replace(self._limits, rows=1 << 62).bounded(scan.read())
        table = pa.Table.from_batches(_slice(batches, offset, count + 1), scan.schema)
        answer = _page(table, count) | {"offset": offset, "notes": Rows(scan.schema, scan.read, scan.notes).notes}
        if "key" in scan.schema.names and state is not None and served.has_keys(uid, state):
            is_text = served.key_type(uid) == "STRING"
            keys = table.column("key").slice(0, len(answer["rows"])).to_pylist()
            answer["keys"] = [key if is_text else json.dumps(json_value(key), ensure_ascii=False) for key in keys]
        return answer

    def _key(self, served: ServedSnapshot, uid: str, text: str) -> Answer:
        contents = served.look_up(uid, None).find(key_of(served, uid, text))
        if not contents:
            raise NotFoundError(f"the operator {uid!r} does not have the key {text} in checkpoint {served.checkpoint_id}")
        tables = {name: table.drop_columns(["key"]) for name, table in contents.tables().items()}
        self._limits.check_rows(sum(table.num_rows for table in tables.values()))
        timers = tables.pop("timers", None) if contents.timers is not None else None
        return {
            "key": browsable(json_value(contents.key)),
            "python": browsable(repr(contents.key)),
            "states": map_values(_first_rows, tables),
            "timers": None if timers is None else _first_rows(timers),
        }

    def _sizes(self, served: ServedSnapshot, uid: str, by: str) -> Answer:
        report = SizeReport.of(served.snapshot, served.operator(uid), by, _LARGEST)
        measured = [part.measure() for part in report.parts]
        table = report.merged(without_none(measured))
        return _table(table) | {"by": by, "total": sum(table.column(SIZE_IN_BYTES).to_pylist())}

    def _differences(self, served: ServedSnapshot, query: Mapping[str, str]) -> Answer:
        from state_processor.arrow import diff_summary  # only this view needs what compares

        compared = self._followed.at(query.get("other", ""))
        options = without_keys(self._followed.access.values(), ("time_zone",))
        table = diff_summary(compared.path, served.path, query.get("uid") or None, **options)
        self._followed.check_stored(compared)  # both were read by path
        self._followed.check_stored(served)
        return _table(table) | {"old": compared.path, "new": served.path}

    def _sql(self, served: ServedSnapshot, sql: str) -> Answer:
        if not sql.strip():
            raise OptionError("expected a query, such as SELECT * FROM operators")
        if self._queries is None:
            self._queries = QueryProcesses(self._followed.access, self._limits)
        schema, batches = self._queries.run(served, sql)
        table = pa.Table.from_batches(_slice(batches, 0, _SQL_ROWS + 1), schema)
        batches.close()  # type: ignore[attr-defined]
        return _page(table, _SQL_ROWS) | {"notes": json.loads((schema.metadata or {}).get(NOTES, b"[]"))}


def _number(query: Mapping[str, str], name: str, default: int, most: int) -> int:
    text = query.get(name, str(default))
    if not text.isascii() or not text.isdigit() or len(text) > len(str(most)) or int(text) > most:
        raise OptionError(f"{name}={text[:80]!r}: expected a number up to {most}")
    return int(text)


def _slice(batches: Iterable[pa.RecordBatch], offset: int, count: int) -> Iterator[pa.RecordBatch]:
    """Yield ``count`` rows from ``offset`` on: fewer if they are larger than a page."""
    size = 0
    for batch in batches:
        if offset >= batch.num_rows:
            offset -= batch.num_rows
            continue
        part = batch.slice(offset, count)
        offset, count = 0, count - part.num_rows
        yield part
        size += part.nbytes
        if not count or size > _LARGEST_PAGE:
            return


def _page(table: pa.Table, count: int) -> Answer:
    """Return the first rows of a table: fewer than ``count`` if they are large."""
    page = table.slice(0, count)
    while page.nbytes > _LARGEST_PAGE and page.num_rows > 1:
        page = page.slice(0, page.num_rows // 2)
    return _table(page) | {"is_more": table.num_rows > page.num_rows}


def _table(table: pa.Table) -> Answer:
    columns = [{"name": field.name, "type": _type_name(field.type), "shape": _shape(field.type)} for field in table.schema]
    rows = zip(*map(_cells, table.columns), strict=True)
    notes = dict.fromkeys(comments_of(table.schema).values())
    return {"columns": columns, "rows": list(map(list, rows)), "notes": [*notes]}


def _cells(column: pa.ChunkedArray) -> list[Any]:
    """Return the values of a column. Long lists and maps are cut before their elements become Python objects."""
    if not (_is_list(column.type) or pa.types.is_map(column.type)):
        return [browsable(json_value(value)) for value in column.to_pylist()]
    cells = []
    for scalar in column:
        elements = scalar.values
        cell = None if elements is None else json_value(elements.slice(0, _MOST_ELEMENTS).to_pylist())
        if cell is not None and pa.types.is_map(column.type):
            cell = [[*entry.values()] for entry in cell]
        cells.append(cell if cell is None else browsable(cell) + _note_of_rest(len(elements)))
    return cells


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _type_name(kind: pa.DataType) -> str:
    """Return Spark's name of a type. Results of queries have more types, such as intervals."""
    try:
        return spark_ddl(kind)
    except TypeError:
        return str(kind)


def _first_rows(table: pa.Table) -> Answer:
    """Return the first rows of a table, and the number of all."""
    return _table(table.slice(0, _MOST_ROWS)) | {"number": table.num_rows}


def _shape(kind: pa.DataType) -> Any:
    """Return how values of a type unfold."""
    if pa.types.is_struct(kind):
        return {"struct": [[field.name, _shape(field.type)] for field in kind]}
    if pa.types.is_map(kind):
        return {"map": [_shape(kind.key_type), _shape(kind.item_type)]}
    if _is_list(kind):
        return {"list": _shape(kind.value_type)}
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return "bytes"
    return "text" if pa.types.is_string(kind) or pa.types.is_large_string(kind) else "value"


def browsable(value: Any) -> Any:
    """Return a value of JSON that a browser shows: without long texts and lists, and with all digits of numbers."""
    if isinstance(value, dict):
        return map_values(browsable, value)
    if isinstance(value, (list, tuple)):
        return list(map(browsable, value[:_MOST_ELEMENTS])) + _note_of_rest(len(value))
    if isinstance(value, str):
        return value if len(value) <= _LONGEST else f"{value[:_LONGEST]}… ({len(value):,} characters)"
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= _EXACT:
        return str(value)
    return json_value(value)


def _note_of_rest(number: int) -> list[str]:
    return [f"… {number - _MOST_ELEMENTS:,} more"] if number > _MOST_ELEMENTS else []


# The page: one HTML file, and the policy that permits its script, its style and requests to its server alone

BROWSE: Final = "browse"
"""The path of the page, and the beginning of the paths of its answers."""
_PART: Final = re.compile(r"<(?P<name>script|style)>(?P<text>.*?)</(?P=name)>", re.DOTALL)


def browser_page() -> str:
    """Return the page. It contains no state."""
    return (pkgutil.get_data(__package__, "browser.html") or b"").decode()


def browser_policy() -> str:
    """Return the content security policy of the page."""
    digests = {}
    for part in _PART.finditer(browser_page()):
        digest = sha256(part["text"].encode()).digest()
        digests[part["name"]] = b64encode(digest).decode()
    return (
        f"default-src 'none'; script-src 'sha256-{digests['script']}'; style-src 'sha256-{digests['style']}'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
    )
