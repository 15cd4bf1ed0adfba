"""The page about a snapshot: HTML with everything inside, for a browser without network. All text of the snapshot is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import groupby
from typing import Any, Final

from state_processor import __version__
from state_processor.backends.analysis.entry_sizes import ENTRIES, SIZE
from state_processor.display import size_text, text_of
from state_processor.html_display import html_table
from state_processor.report import charts
from state_processor.report.contents import SnapshotContents
from state_processor.serializers.redaction import presentable

_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
_STYLE: Final = """
:root { color-scheme: light dark; --text: #1d2433; --muted: #5b6478; --page: #f6f7f9; --card: #ffffff; --line: #d9dde5;
  --accent: #2f6fb2; --bad: #b3261e; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e4e7ee; --muted: #9aa3b5; --page: #14171d; --card: #1d2129; --line: #343b48;
    --accent: #6aa9e9; --bad: #ff8a80; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1280px; padding: 1.5rem 1rem 3rem; background: var(--page); color: var(--text);
  font: 15px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.4rem; margin: 0 0 0.2rem; }
h2 { font-size: 1.1rem; margin: 0 0 0.7rem; }
h3 { font-size: 0.95rem; margin: 0.9rem 0 0.3rem; overflow-wrap: anywhere; }
p { margin: 0.3rem 0; }
.path { overflow-wrap: anywhere; color: var(--muted); }
.note { color: var(--muted); font-size: 0.87rem; }
.bad { color: var(--bad); overflow-wrap: anywhere; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 1rem; margin-top: 1rem; }
dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: 0.7rem 1.5rem; margin: 0; }
dt { color: var(--muted); font-size: 0.82rem; }
dd { margin: 0; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 0.87rem; }
th { color: var(--muted); font-weight: 600; white-space: nowrap; }
th, td { padding: 0.28rem 0.5rem; border-bottom: 1px solid var(--line); vertical-align: top; }
td { overflow-wrap: break-word; max-width: 20rem; font-variant-numeric: tabular-nums; }
td[style*="right"] { white-space: nowrap; }
td:first-child, th:first-child { padding-left: 0; }
td:last-child { max-width: 36rem; }
svg { display: block; width: 100%; }
svg.bars { height: 90px; border-bottom: 1px solid var(--line); }
svg.heat { height: 26px; border: 1px solid var(--line); border-radius: 3px; }
.bar { fill: var(--accent); }
.axis { display: flex; justify-content: space-between; gap: 1rem; color: var(--muted); font-size: 0.8rem; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); gap: 0 2rem; }
footer { color: var(--muted); font-size: 0.8rem; margin-top: 1rem; }
"""
_OPERATOR_COLUMNS: Final = {
    "operator_name": "name",
    "operator_uid": "uid",
    "operator_uid_hash": "uid hash",
    "operator_total_size_in_bytes": "size",
    "operator_parallelism": "parallelism",
    "operator_max_parallelism": "max parallelism",
}
_STATE_COLUMNS: Final = {
    "state_name": "state",
    "state_kind": "kind",
    ENTRIES: "entries",
    SIZE: "size",
    "key_type": "key",
    "map_key_type": "map key",
    "value_type": "value",
    "ttl": "TTL",
    "backend": "backend",
}
_LONGEST: Final = 4000
_MIGRATION_COLUMNS: Final = {name: name for name in ("operator", "state", "kind", "outcome", "notes")}


def page(contents: SnapshotContents) -> str:
    """Return the page, in HTML."""
    title = presentable(contents.path).rstrip("/")
    sections = (
        _section("Snapshot", _facts(contents.facts)),
        _section("Could not be read", *(f'<p class="bad">{_text(problem)}</p>' for problem in contents.problems)),
        _section("Operators", _table(_OPERATOR_COLUMNS, contents.operators)),
        _section("States", *_states(contents)),
        _section("Skew over key groups", *_skew(contents)),
        _section("Timers", *_timers(contents)),
        _section("Ages of values with time-to-live", *_ages(contents)),
        _section("Compatibility", *_restoring(contents)),
    )
    name = _text(title.rpartition("/")[2] or title)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{name}</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>{name}</h1>
<p class="path">{_text(title)}</p>
{"".join(sections)}
<footer>state-processor {escape(__version__)}</footer>
</body>
</html>
"""


def _text(value: Any) -> str:
    return escape(text_of(presentable(str(value))))


def _section(title: str, *parts: str) -> str:
    """Return a section; nothing if it has no content."""
    content = "".join(parts)
    return f"<section><h2>{escape(title)}</h2>{content}</section>" if content else ""


def _facts(facts: Mapping[str, Any]) -> str:
    shown = {name: size_text(value) if name == "size" else value for name, value in facts.items()}
    return f"<dl>{''.join(f'<div><dt>{_text(n)}</dt><dd>{_text(v)}</dd></div>' for n, v in shown.items())}</dl>"


def _table(columns: Mapping[str, str], rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a table of the columns in which some row has a value, under other names."""
    filled = {name: as_ for name, as_ in columns.items() if any(row.get(name) not in (None, "") for row in rows)}
    renamed = [{as_: row.get(name) for name, as_ in filled.items()} for row in rows]
    shown = html_table(list(filled.values()), renamed, sizes=frozenset({"size"}), longest=_LONGEST)
    return f'<div class="scroll">{shown}</div>' if rows else ""


def _states(contents: SnapshotContents) -> Iterable[str]:
    for operator, rows in groupby(contents.states, key=lambda row: row["operator"]):
        yield f"<h3>{_text(operator)}</h3>{_table(_STATE_COLUMNS, list(rows))}"
    if contents.key_groups:
        yield (
            '<p class="note">Sizes of keyed states are those of keys, namespaces and values as a canonical savepoint has them, '
            "without lengths.</p>"
        )


def _skew(contents: SnapshotContents) -> Iterable[str]:
    for operator, sizes in contents.key_groups.items():
        if sizes.sum():
            largest, empty = int(sizes.argmax()), int((sizes == 0).sum())
            yield (
                f"<h3>{_text(operator)}</h3>{charts.heat_map(sizes)}"
                f'<p class="note">{len(sizes)} key groups, {size_text(int(sizes.sum()))}; the largest is {largest} with '
                f"{size_text(int(sizes.max()))}, {charts.skew(sizes):.1f} times the mean; {empty} are empty.</p>"
            )


def _timers(contents: SnapshotContents) -> Iterable[str]:
    shown = []
    for (operator, domain), times in contents.timers.items():
        notes = [f"{times.total} timers"] + ([f"{times.outside} at the end of the input or of time"] if times.outside else [])
        heading = f"<h3>{_text(operator)}, {_text(domain.replace('_', ' '))}</h3>"
        shown.append(f'<div>{heading}{charts.times(times)}<p class="note">{", ".join(notes)}</p></div>')
    if shown:
        yield f'<div class="charts">{"".join(shown)}</div><p class="note">Times are in UTC.</p>'


def _ages(contents: SnapshotContents) -> Iterable[str]:
    as_of = max((times.last for times in contents.accesses.values()), default=0)
    shown = [
        f"<div><h3>{_text(operator)}, {_text(state)}</h3>{charts.ages(times, as_of)}"
        f'<p class="note">{times.total} values</p></div>'
        for (operator, state), times in contents.accesses.items()
    ]
    if shown:
        since = f"Ages are those at {charts.instant_text(as_of)} UTC, the last access to any of them." if as_of else ""
        yield f'<div class="charts">{"".join(shown)}</div><p class="note">{since}</p>'


def _restoring(contents: SnapshotContents) -> Iterable[str]:
    for said in contents.restoring:
        kind = ' class="bad"' if said.is_bad else ""
        yield f"<p{kind}>{_text(said.text)}</p>"
    if contents.migration:
        yield _table(_MIGRATION_COLUMNS, contents.migration)
