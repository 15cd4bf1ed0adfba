"""The table of queries, operators, states and columns in docs/reference/sql-state.md, from savepoints of real queries.

``./dev generate`` writes it into the page.
"""

from __future__ import annotations

import re

import state_processor as sp
from tests.archives import ROOT, unpacked

PAGE = ROOT / "docs" / "reference" / "sql-state.md"
BEGIN, END = "<!-- the table begins -->\n", "<!-- the table ends -->\n"
VERSION = "2.3.0"
TITLES = {
    "group-aggregate": "`GROUP BY`",
    "distinct": "`COUNT(DISTINCT …)`, `FILTER`",
    "retracting": "`GROUP BY` over updates",
    "two-phases": "`GROUP BY` in two phases",
    "inner-join": "`JOIN`",
    "left-join": "`LEFT JOIN`",
    "join-by-unique-keys": "`LEFT JOIN` of rows with unique keys",
    "interval-join": "interval join",
    "temporal-join": "`FOR SYSTEM_TIME AS OF`",
    "first-row": "first row by `ROW_NUMBER`",
    "last-row": "last row by `ROW_NUMBER`",
    "top": "top n",
    "top-of-updates": "top n of updates",
    "tumbling": "`TUMBLE`",
    "hopping": "`HOP`",
    "cumulating": "`CUMULATE`",
    "sessions": "`SESSION`",
    "over": "`OVER`",
    "normalized": "table that is updated by its primary key",
    "materialized": "sink that is updated by its primary key",
    "match": "`MATCH_RECOGNIZE`",
}
_NOT_SHOWN = ("source", "sink")


def table() -> str:
    """The table as the page has it."""
    lines = ["| query | operator | state | columns | what it holds |", "|---|---|---|---|---|"]
    for name, title in TITLES.items():
        directory = unpacked("sql") / VERSION / name
        rows = sp.arrow.states(directory / "savepoint", plan=directory / "plan.json").to_pylist()
        for row in sorted(rows, key=lambda r: (int(r["operator_uid"].partition("_")[0]), r["state_name"])):
            operation = row["operator_uid"].partition("_")[2]
            if operation in _NOT_SHOWN or row["state_name"].startswith("_timer_state/"):
                continue
            columns = re.sub(r"\bstruct<((?:[^<>]|<[^<>]*>)*line:string.*)", "struct<…>", row["spark_schema"])
            columns = columns if len(columns) < 400 else f"{columns[:120]}…"
            cells = (title, operation, f"`{row['state_name']}`", f"``{columns}``", row["description"] or "")
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def page() -> str:
    """The page with the table in its place."""
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    return f"{before}{BEGIN}{table()}{END}{rest.partition(END)[2]}"
