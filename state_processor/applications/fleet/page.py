"""The table of a fleet as one HTML page. All text is escaped; the only script sorts rows, and the policy names its digest."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from html import escape
from typing import Any, Final

from state_processor import __version__
from state_processor.applications.report.page import STYLE
from state_processor.command_line import count_text, size_text, text_of

_SCRIPT: Final = """
for (const button of document.querySelectorAll("th button")) button.addEventListener("click", () => {
  const head = button.parentElement, up = head.getAttribute("aria-sort") === "descending", body = document.querySelector("tbody");
  for (const other of head.parentElement.children) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", up ? "ascending" : "descending");
  const value = row => row.children[head.cellIndex].dataset.value;
  const compared = (a, b) => head.dataset.text ? a.localeCompare(b) : a - b;
  const rows = [...body.rows], empty = rows.filter(row => value(row) === "");
  const filled = rows.filter(row => value(row) !== "").sort((a, b) => compared(value(a), value(b)) * (up ? 1 : -1));
  body.append(...filled, ...empty);
});
"""
_DIGEST: Final = b64encode(sha256(_SCRIPT.encode()).digest()).decode()
_POLICY: Final = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{_DIGEST}'"
_STYLE: Final = """
body { max-width: 1900px; }
th button { all: unset; cursor: pointer; } th button:focus-visible { outline: 2px solid var(--accent); }
th[aria-sort=descending] button::after { content: " ↓"; } th[aria-sort=ascending] button::after { content: " ↑"; }
td.number { text-align: right; white-space: nowrap; }
"""
_DAY, _HOUR, _MINUTE = 86_400, 3600, 60

Row = Mapping[str, Any]


def age_text(seconds: float | None) -> str:
    """Return an age in two units: ``3d 4h``."""
    if seconds is None:
        return ""
    whole = max(0, round(seconds))
    for unit, name, part, part_name in ((_DAY, "d", _HOUR, "h"), (_HOUR, "h", _MINUTE, "min"), (_MINUTE, "min", 1, "s")):
        if whole >= unit:
            return f"{whole // unit}{name} {whole % unit // part}{part_name}"
    return f"{whole}s"


def growth_text(bytes_per_day: float | None) -> str:
    """Return a growth per day with its sign."""
    if bytes_per_day is None:
        return ""
    return f"{'-' if bytes_per_day < 0 else '+'}{size_text(round(abs(bytes_per_day)))}"


def largest_text(row: Row) -> str:
    """Return the largest operators with their sizes."""
    return ", ".join(f"{o['operator']} {size_text(o['size_in_bytes'])}" for o in row["largest_operators"] or ())


def findings_text(row: Row) -> str:
    """Return the error and the findings of a row."""
    texts = [f"{finding['kind']}: {finding['text']}" for finding in row["findings"] or ()]
    return "; ".join([*([row["error"]] if row["error"] else ()), *texts])


def fleet_page(rows: Sequence[Row], directories: Iterable[str], time: datetime) -> str:
    """Return the page about the rows of a fleet."""
    failed = sum(row["error"] is not None for row in rows)
    with_findings = sum(bool(row["findings"]) for row in rows)
    size = sum(row["size_in_bytes"] or 0 for row in rows)
    facts = {
        "rows": count_text(len(rows)),
        "size of the newest snapshots": size_text(size),
        "with findings": count_text(with_findings),
        "with errors": count_text(failed),
        "made": f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC",
    }
    entries = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in facts.items())
    head = "".join(
        f'<th{"" if is_number else " data-text=1"} scope="col"><button>{escape(name)}</button></th>'
        for name, is_number, _, _ in _COLUMNS
    )
    body = "".join(map(_line, rows))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>Jobs</title>
<style>{STYLE}{_STYLE}</style>
</head>
<body>
<h1>Jobs</h1>
<p class="path">{escape(text_of(", ".join(directories)))}</p>
<section><dl>{entries}</dl></section>
<section><div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div></section>
<footer>state-processor {escape(__version__)}</footer>
<script>{_SCRIPT}</script>
</body>
</html>
"""


_COLUMNS: Final = (
    ("job", False, lambda row: row["job_id"] or row["directory"], lambda row: row["job_id"] or ""),
    ("directory", False, lambda row: row["directory"], lambda row: row["directory"]),
    ("checkpoint", True, lambda row: row["checkpoint_id"], lambda row: count_text(row["checkpoint_id"])),
    ("age", True, lambda row: row["age_seconds"], lambda row: age_text(row["age_seconds"])),
    ("size", True, lambda row: row["size_in_bytes"], lambda row: size_text(row["size_in_bytes"])),
    ("per day", True, lambda row: row["bytes_per_day"], lambda row: growth_text(row["bytes_per_day"])),
    ("snapshots", True, lambda row: row["snapshots"], lambda row: count_text(row["snapshots"])),
    ("incomplete", True, lambda row: row["incomplete"], lambda row: count_text(row["incomplete"])),
    ("orphans", True, lambda row: row["orphans"], lambda row: count_text(row["orphans"])),
    ("restorable by", False, lambda row: row["restorable_by"], lambda row: row["restorable_by"] or ""),
    ("largest operators", False, largest_text, largest_text),
    ("findings", True, lambda row: len(row["findings"] or ()) or (0 if row["error"] else None), findings_text),
    ("not checked", False, lambda row: "; ".join(row["unchecked"] or ()), lambda row: "; ".join(row["unchecked"] or ())),
)
"""Columns: the name, whether it has numbers, the value that sorts it, and its text."""


def _line(row: Row) -> str:
    return f"<tr>{''.join(_cell(row, column) for column in _COLUMNS)}</tr>"


def _cell(row: Row, column: tuple[str, bool, Any, Any]) -> str:
    name, is_number, value, text = column
    sorted_by = value(row)
    kind = (
        ' class="number"' if is_number and name != "findings" else ' class="bad"' if name == "findings" and row["error"] else ""
    )
    return f'<td{kind} data-value="{escape("" if sorted_by is None else str(sorted_by))}">{escape(text_of(text(row)))}</td>'
