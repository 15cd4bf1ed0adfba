"""Scripts of SQL that are compiled instead of submitted."""

from __future__ import annotations

import pytest

from state_processor.applications.jobs.plan_compiler import planned_statements, setting
from state_processor.support.errors import OptionError

TABLE = "CREATE TABLE a (b STRING) WITH ('x' = 'it''s; -- no')"


def test_the_insert_is_compiled() -> None:
    script = planned_statements(
        f"-- first; a comment\nSET 'a' = 'b';\n{TABLE};\n/* ; */ INSERT INTO a SELECT ';' AS `b;`;", "p'lan"
    )
    assert script == ["SET 'a' = 'b'", TABLE, "COMPILE PLAN 'p''lan' FOR INSERT INTO a SELECT ';' AS `b;`"]
    assert [setting(one) for one in script] == [("a", "b"), None, None]


@pytest.mark.parametrize("begin", ["EXECUTE STATEMENT SET BEGIN", "BEGIN STATEMENT SET;", "STATEMENT SET\nBEGIN"])
def test_a_statement_set_is_compiled(begin: str) -> None:
    script = planned_statements(f"{begin} INSERT INTO a SELECT 1; INSERT INTO b SELECT 2; END;", "plan")
    assert script == ["COMPILE PLAN 'plan' FOR STATEMENT SET BEGIN\nINSERT INTO a SELECT 1;\nINSERT INTO b SELECT 2;\nEND"]


def test_a_statement_that_compiles_has_another_target() -> None:
    assert planned_statements("COMPILE PLAN 'x' FOR INSERT INTO a SELECT 1", "y") == [
        "COMPILE PLAN 'y' FOR INSERT INTO a SELECT 1"
    ]


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        (TABLE, "one INSERT or one statement set, found 0"),
        ("INSERT INTO a SELECT 1; INSERT INTO a SELECT 2", "found 2; each INSERT outside of a statement set is a job"),
        ("SELECT 1; INSERT INTO a SELECT 1", "statements that define tables and one INSERT, found 'SELECT 1'"),
        ("CREATE TABLE c WITH ('x' = 'y') AS SELECT 1; INSERT INTO a SELECT 1", "found .CREATE TABLE c"),
        ("EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1;", "expected END after the statement set"),
    ],
)
def test_other_statements_are_refused(sql: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        planned_statements(sql, "plan")
