from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

from state_processor.applications.sql.session import QueryFields
from tests.state_processor.read.scan_spy import paths

PROFILE = pa.struct(
    [("name", pa.string()), ("tier", pa.string()), ("address", pa.struct([("city", pa.string()), ("zip", pa.int32())]))]
)
ORDERS = pa.schema([("key", pa.string()), ("profile", PROFILE), ("total", pa.int64())])
ALL = paths(ORDERS)


@pytest.mark.parametrize(
    ("query", "fields"),
    [
        ("SELECT profile.tier FROM orders", ["profile.tier"]),
        ("SELECT Orders.Profile.TIER FROM orders", ["profile.tier"]),
        ("SELECT profile.address.zip, sum(total) FROM orders GROUP BY 1", ["profile.address.zip"]),
        ("SELECT profile.tier FROM orders WHERE profile.name = 'x'", ["profile.name", "profile.tier"]),
        ("SELECT profile.address FROM orders", ["profile.address.city", "profile.address.zip"]),
        ("SELECT profile.address, profile.address.zip FROM orders", ["profile.address.city", "profile.address.zip"]),
        ("SELECT o.profile.tier FROM orders o", ["profile.tier"]),
        ("SELECT p.tier FROM (SELECT profile AS p FROM orders)", None),
        ("SELECT profile.tier, profile FROM orders", None),
        ("SELECT profile.unknown FROM orders", None),
        ("SELECT struct_extract(profile, 'tier') FROM orders", None),
        ("SELECT * FROM orders WHERE profile.tier = 'GOLD'", None),
        ("SELECT profile.* FROM orders WHERE profile.tier = 'GOLD'", None),
        ("FROM orders WHERE profile.tier = 'GOLD'", None),
        ("SELECT COLUMNS('p.*') FROM orders WHERE profile.tier = 'GOLD'", None),
        ("SELECT orders FROM orders WHERE profile.tier = 'GOLD'", None),
        ("SELECT o FROM orders o WHERE profile.tier = 'GOLD'", None),
        ("SELECT #2 FROM orders WHERE profile.tier = 'GOLD'", None),
        ("SELECT profile.tier FROM orders JOIN orders o USING (profile)", None),
        ("SELECT total FROM orders NATURAL JOIN orders o WHERE profile.tier = 'GOLD'", None),
        ("SELECT x FROM orders AS o(profile, x, total) WHERE profile.tier = 'GOLD'", None),
        ("SELECT profile.tier FROM query_table('orders')", None),
        ("WITH o AS (FROM orders) SELECT profile.tier FROM o", None),
        ("WITH o AS (SELECT profile.tier AS t FROM orders) SELECT t FROM o", ["profile.tier"]),
        ("SELECT total FROM orders", None),
    ],
)
def test_fields_of_a_query(query: str, fields: list[str] | None) -> None:
    found = QueryFields.of(duckdb.connect(), query)
    assert found is not None
    wanted = ALL if fields is None else ["key", *fields, "total"]
    assert sorted(paths(found.narrowed(ORDERS))) == sorted(wanted)


def test_tables_of_a_query() -> None:
    found = QueryFields.of(duckdb.connect(), 'SELECT * FROM "My Op".Total JOIN (SELECT 1 FROM orders) ON true')
    assert found is not None
    assert found.tables == {("my op", "total"), ("orders",)}


@pytest.mark.parametrize("statement", ["CREATE VIEW v AS SELECT 1", "SELEC 1", "PIVOT orders ON key"])
def test_other_statements_are_unknown(statement: str) -> None:
    assert QueryFields.of(duckdb.connect(), statement) is None


def test_fields_that_differ_by_case_only_are_all_read() -> None:
    schema = pa.schema([("value", pa.struct([("id", pa.int64()), ("ID", pa.int64())]))])
    found = QueryFields.of(duckdb.connect(), "SELECT value.id FROM t")
    assert found is not None
    assert found.narrowed(schema) == schema
