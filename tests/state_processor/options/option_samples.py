"""A sample of each option: values and their text, values that are refused, and what shows that the option acts.

Tests of values, of effects and of refusals take their cases from this table.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import numpy as np

from state_processor.backends.read.read_options import Kind
from state_processor.types.flink_types import Types
from state_processor.types.state_specs import ListState, MapState, ValueState


@dataclass(frozen=True)
class Sample:
    """Values of an option.

    Parameters
    ----------
    value
        A value that is not the default. Rows of ``content`` differ with it.
    alike
        Pairs of a keyword argument and the text that means the same.
    refused
        Pairs of a keyword argument and a text that are both refused.
    content
        The content of :mod:`effect_samples` that the value changes. Without it, :mod:`test_acting_options` has its own proof.
    needs
        Values of the options that it needs.
    before
        Options of the read that differs, if these are not ``needs``.
    by_kind
        Other values for reads of some kinds.
    """

    value: Any = None
    alike: list[tuple[Any, str]] = field(default_factory=list)
    refused: list[tuple[Any, str]] = field(default_factory=list)
    content: str = ""
    needs: dict[str, Any] = field(default_factory=dict)
    before: dict[str, Any] | None = None
    by_kind: dict[Kind, Any] = field(default_factory=dict)


ROW: Final = Types.ROW_NAMED(["name", "n"], [Types.STRING(), Types.LONG()])
EXPIRED: Final = {"ttl": "PT1H", "as_of": "2999-01-01"}

SAMPLES: Final[dict[str, Sample]] = {
    "flatten": Sample(False, [(False, "False")], [("yes", "yes")], "lists"),
    "metadata": Sample(True, [(np.True_, "true")], [(1, "1")], "longs"),
    "columns": Sample(
        ["value.f0"],
        [(["key", "value.id"], "key, value.id"), (("a,b",), '["a,b"]')],
        [([], ""), ([1], "[1]")],
        "rows",
        by_kind={Kind.WHOLE: ["rows.f0"], Kind.TIMERS: ["timestamp"], Kind.RAW: ["value"]},
    ),
    "keys": Sample([2], [(["a", 1], '["a", 1]')], [("a", '"a"')], "longs"),
    "nanos": Sample(
        "string",
        [("Truncate", "truncate")],
        [("round", "round")],
        "instants",
        by_kind={Kind.LOOKUP: "truncate", Kind.DIFF: "truncate", Kind.COUNTS: "error"},
    ),
    "row_kind": Sample(True, [(True, "TRUE")], [([], "[]")], "rows"),
    "ttl": Sample(
        EXPIRED["ttl"],
        [(timedelta(hours=1), "PT1H"), ("PT1H", "1h"), (timedelta(days=7), "7 days")],
        [(3600, "3600"), ("1x", "1x")],
        "sessions",
        {"as_of": EXPIRED["as_of"]},
        before={},
    ),
    "as_of": Sample(
        EXPIRED["as_of"],
        [(datetime(2024, 1, 31, 12, tzinfo=UTC), "2024-01-31T12:00:00Z"), (1_706_702_400_000, "1706702400000")],
        [("yesterday", "yesterday")],
        "sessions",
        {"ttl": EXPIRED["ttl"]},
        before={**EXPIRED, "as_of": 0},
    ),
    "expired": Sample("only", [("only", "ONLY")], [(True, "true")], "sessions", EXPIRED),
    "types": Sample(
        {"value": "LIST<STRING>"},
        [
            ({"value.a": Types.LIST(Types.STRING())}, '{"value.a": "LIST<STRING>"}'),
            ({"value.a": "LIST<STRING>"}, '{"value.a": "LIST<STRING>"}'),
        ],
        [(["value"], '["value"]'), ({"value.a": "NOPE<"}, '{"value.a": "NOPE<"}')],
        "kryo",
        by_kind={Kind.WHOLE: {"kryo": "LIST<STRING>"}},
    ),
    "infer_kryo": Sample(True, content="kryo"),
    "python_type": Sample(
        "LONG",
        [
            (Types.LONG(), "LONG"),
            (ListState(Types.LONG()), "ListState<LONG>"),
            (MapState(Types.STRING(), ROW), " MapState< STRING, ROW<name:STRING,n:LONG> >"),
            (ValueState(Types.LIST(Types.LONG())), "ReducingState<LIST<LONG>>"),
        ],
        [("NOPE", "NOPE"), (3, '{"kind": "SET"}'), (Types.EITHER(Types.LONG(), Types.LONG()), "EITHER<LONG,LONG>")],
    ),
    "python_types": Sample(
        {"total": "LONG"},
        [({"total": Types.LONG(), "items": "ListState<STRING>"}, '{"total": "LONG", "items": "ListState<STRING>"}')],
        [(["total"], '["total"]'), ({"total": "ListState<>"}, '{"total": "ListState<>"}')],
    ),
    "unpickle": Sample(True, needs={"python_type": "LONG"}),
    "fields": Sample(
        {"queried": ["renamed"]},
        [({"key": ["id"], "accState": ("n", "m")}, '{"key": ["id"], "accState": ["n", "m"]}')],
        [(["id"], '["id"]'), ({"key": []}, '{"key": []}')],
        "queried",
        by_kind={Kind.TIMERS: {"key": ["renamed"]}}
        | {kind: {f"{kind.name.lower()}-queried": ["renamed"]} for kind in (Kind.LIST, Kind.UNION, Kind.BROADCAST)},
    ),
    "undescribed": Sample("bytes", [("bytes", "BYTES")], [("raw", "raw")], "shapes"),
    "batch_memory": Sample("64k", [(64 << 20, "64m")], [("much", "much")], "texts"),
    "pushdown": Sample("serves-one-query"),
    "path_mapping": Sample(
        {"/old": "/new"},
        [({"/old": Path("/new")}, '{"/old": "/new"}')],
        [({"/old": 1}, '{"/old": 1}'), ("/old=/new", "/old=/new")],
    ),
    "allow_paths": Sample(
        ("/elsewhere",),
        [(["/a", Path("/b,c")], '["/a", "/b,c"]'), ("s3://bucket/x", "s3://bucket/x")],
        [([1], "[1]"), ({"/old": "/new"}, "")],
    ),
    "serializers": Sample(("tests.baskets",), [(["one", "two"], "one, two"), ("one,two", "one,two")], [(["os;evil"], "os;evil")]),
    "plan": Sample(
        "/plans/query.json",
        [(Path("/plans/query.json"), "/plans/query.json"), ({"nodes": [], "edges": []}, '{"nodes": [], "edges": []}')],
        [("", "")],
    ),
    "uids": Sample(
        ("orders",),
        [(Path("/lists/uids.txt"), "/lists/uids.txt"), (["orders", "a,b"], '["orders", "a,b"]')],
        [([], "[]"), (["orders", ""], '["orders", ""]')],
    ),
    "time_zone": Sample("America/New_York", [("America/New_York", "America/New_York")], [("Mars", "Mars")], "days"),
    "storage_options": Sample(
        {"region": "eu-1"},
        [({"region": "eu-1", "client_kwargs": {"a": 1}}, '{"region": "eu-1", "client_kwargs": "{\\"a\\": 1}"}')],
        [("region=eu-1", "region=eu-1")],
    ),
    "threads": Sample(2),
    "kind": Sample(None, [("keyed", "KEYED")], [("VALUE", "VALUE")]),
}
"""The samples by keyword argument. ``kind`` selects what is read, and acts on every read."""
