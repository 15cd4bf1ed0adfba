"""Migration of queries without Spark: the check is the same."""

from __future__ import annotations

import pytest

import state_processor as sp
from tests.archives import unpacked


def test_a_migration_is_checked_without_spark() -> None:
    old, new = (unpacked("sql") / "2.3.0" / name for name in ("group-aggregate", "retracting"))
    writer = sp.arrow.SavepointWriter.from_existing(old / "savepoint", plan=old / "plan.json")
    report = writer.check_query_migration(old / "plan.json", new / "plan.json")
    first = "for the new query: 3 unchanged, 1 converted, 1 new, 0 left out, 0 impossible"
    assert str(report).splitlines()[0] == first
    with pytest.raises(sp.OptionError, match="no query was migrated; call migrate_query first"):
        writer.query_migration_report()
