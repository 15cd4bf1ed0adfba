"""The page about a snapshot: self-contained HTML. All text of the snapshot is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from itertools import groupby
from typing import Any, Final

import numpy as np

from state_processor import __version__
from state_processor.applications.report import charts
from state_processor.applications.report.contents import SnapshotContents
from state_processor.applications.report.distribution import Subtasks
from state_processor.applications.report.findings import (
    compared_text,
    findings,
    key_groups_text,
    key_text,
    share_text,
    subtasks_text,
)
from state_processor.applications.report.style import STYLE
from state_processor.backends.analysis.entry_sizes import ENTRIES, SIZE
from state_processor.display.html_tables import html_table
from state_processor.display.text_tables import count_text, size_text, text_of
from state_processor.serializers.redaction import presentable

_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
_OPERATOR_COLUMNS: Final = {
    "operator_name": "name",
    "operator_kind": "kind",
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
_SUBTASK_COLUMNS: Final = {
    "subtask": "subtask",
    SIZE: "size",
    "multiple": "times the mean",
    ENTRIES: "entries",
    "key_groups": "key groups",
    "filled": "with state",
}
_KEY_COLUMNS: Final = {"key": "key", SIZE: "size", "share": "of all bytes", ENTRIES: "entries"}
_COUNTS: Final = frozenset({"parallelism", "max parallelism", "entries", "subtask", "times the mean", "key groups", "with state"})
_MOST_SUBTASKS: Final = 10
_LONGEST: Final = 4000
_GROWTH_COLUMNS: Final = {
    "operator": "operator",
    "state": "state",
    "last_size": "size",
    "grows": "trend",
    "evidence": "evidence",
}
_GROWTH_NOTE: Final = (
    "Charts show the sizes of files. Sizes of states in RocksDB and ForSt are estimates of the bytes that a compaction leaves. "
    "A state grows without a visible bound if it has no time-to-live, grew by more than 10 % over at least 5 snapshots, was "
    "never more than 10 % smaller than before, and grew in the second half of the time by at least half of the rate of the first."
)
_MIGRATION_COLUMNS: Final = {name: name for name in ("operator", "state", "kind", "outcome", "notes")}


def page(contents: SnapshotContents) -> str:
    """Return the page, in HTML."""
    title = presentable(contents.path).rstrip("/")
    sections = (
        _section("Snapshot", _facts(contents)),
        _section("Findings", _findings(contents)),
        _section("Could not be read", *(f'<p class="bad">{_text(problem)}</p>' for problem in contents.problems)),
        _section("Operators", _table(_OPERATOR_COLUMNS, contents.operators)),
        _section("States", *_states(contents)),
        _section("Skew over key groups", *_key_groups(contents)),
        _section("Skew over subtasks", *_subtasks(contents)),
        _section("Largest keys", *_keys(contents)),
        _section("Timers", *_timers(contents)),
        _section("Ages of values with time-to-live", *_ages(contents)),
        _section("Over time", *_over_time(contents)),
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
<style>{STYLE}</style>
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
    """Return a section; an empty string without content."""
    content = "".join(parts)
    return f"<section><h2>{escape(title)}</h2>{content}</section>" if content else ""


def _facts(contents: SnapshotContents) -> str:
    facts = {name: size_text(value) if name == "size" else _fact(value) for name, value in contents.facts.items()}
    facts["snapshot stored"] = "unknown to the storage" if contents.stored is None else _time(contents.stored)
    facts["report made"] = _time(contents.reported)
    return f"<dl>{''.join(f'<div><dt>{_text(n)}</dt><dd>{_text(v)}</dd></div>' for n, v in facts.items())}</dl>"


def _fact(value: Any) -> Any:
    return count_text(value) if isinstance(value, int) else value


def _time(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def _findings(contents: SnapshotContents) -> str:
    items = "".join(f"<li>{_text(sentence)}</li>" for sentence in findings(contents))
    return f'<ul class="findings">{items}</ul>' if items else '<p class="note">Nothing stands out.</p>'


def _table(columns: Mapping[str, str], rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a table of the columns with a value in some row, with other names."""
    filled = {name: as_ for name, as_ in columns.items() if any(row.get(name) not in (None, "") for row in rows)}
    renamed = [{as_: row.get(name) for name, as_ in filled.items()} for row in rows]
    table = html_table(list(filled.values()), renamed, sizes=frozenset({"size"}), counts=_COUNTS, longest=_LONGEST)
    return f'<div class="scroll">{table}</div>' if rows else ""


def _states(contents: SnapshotContents) -> Iterable[str]:
    for operator, rows in groupby(contents.states, key=lambda row: row["operator"]):
        yield f"<h3>{_text(operator)}</h3>{_table(_STATE_COLUMNS, list(rows))}"
    if contents.key_groups:
        yield (
            '<p class="note">Sizes of keyed states are those of keys, namespaces and values as a canonical savepoint has them, '
            "without lengths.</p>"
        )


def _key_groups(contents: SnapshotContents) -> Iterable[str]:
    for operator, groups in contents.key_groups.items():
        if groups.total:
            largest = f"key group {count_text(groups.largest)} has {size_text(groups.most)}"
            yield (
                f"<h3>{_text(operator)}</h3>{charts.heat_map(groups)}"
                f'<p class="note">{key_groups_text(groups)} All have {size_text(groups.total)}, {largest}. '
                "The darker, the larger.</p>"
            )


def _subtasks(contents: SnapshotContents) -> Iterable[str]:
    for operator, subtasks in contents.subtasks.items():
        number = len(subtasks.key_groups)
        if subtasks.sizes.total:
            order = np.argsort(-subtasks.sizes.sizes, kind="stable")[:_MOST_SUBTASKS].tolist()
            limit = "" if number <= _MOST_SUBTASKS else f" The table has the {_MOST_SUBTASKS} largest."
            chart = charts.subtasks(subtasks.sizes) if number > 1 else ""
            yield (
                f'<h3>{_text(operator)}</h3>{chart}<p class="note">{subtasks_text(subtasks)}{limit}</p>'
                f"{_table(_SUBTASK_COLUMNS, [_subtask(subtasks, n) for n in order])}"
            )


def _subtask(subtasks: Subtasks, number: int) -> dict[str, Any]:
    sizes = subtasks.sizes
    numbers = {ENTRIES: subtasks.entries, "key_groups": subtasks.key_groups, "filled": subtasks.filled, SIZE: sizes.sizes}
    values = {name: int(column[number]) for name, column in numbers.items()}
    return {"subtask": number, "multiple": round(sizes.multiple(number), 1), **values}


def _keys(contents: SnapshotContents) -> Iterable[str]:
    for operator, keys in contents.keys.items():
        groups = contents.key_groups[operator]
        rows = [{**row, "key": key_text(row["key"]), "share": share_text(row[SIZE] / groups.total)} for row in keys.rows]
        yield f'<h3>{_text(operator)}</h3>{_table(_KEY_COLUMNS, rows)}<p class="note">{compared_text(keys, groups)}</p>'


def _timers(contents: SnapshotContents) -> Iterable[str]:
    charts_ = []
    for (operator, domain), times in contents.timers.items():
        notes = [f"{count_text(times.total)} timers"]
        if times.outside:
            notes.append(f"{count_text(times.outside)} at the end of the input or of time")
        heading = f"<h3>{_text(operator)}, {_text(domain.replace('_', ' '))}</h3>"
        charts_.append(f'<div>{heading}{charts.times(times)}<p class="note">{", ".join(notes)}</p></div>')
    if charts_:
        yield f'<div class="charts">{"".join(charts_)}</div><p class="note">Times are in UTC.</p>'


def _ages(contents: SnapshotContents) -> Iterable[str]:
    as_of = max((times.last for times in contents.accesses.values()), default=0)
    charts_ = [
        f"<div><h3>{_text(operator)}, {_text(state)}</h3>{charts.ages(times, as_of)}"
        f'<p class="note">{count_text(times.total)} values</p></div>'
        for (operator, state), times in contents.accesses.items()
    ]
    if charts_:
        since = f"Ages refer to {charts.instant_text(as_of)} UTC, the latest access." if as_of else ""
        yield f'<div class="charts">{"".join(charts_)}</div><p class="note">{since}</p>'


def _over_time(contents: SnapshotContents) -> Iterable[str]:
    over_time = contents.over_time
    if over_time is None or not over_time.sizes:
        return
    charts_ = []
    for operator, points in over_time.sizes.items():
        titles = [f"{_time(p.time)}: {size_text(p.size)}, checkpoint {p.checkpoint_id}" for p in points]
        places = [(point.time.timestamp(), point.size) for point in points]
        chart = charts.line(places, titles, _time(points[0].time), _time(points[-1].time))
        charts_.append(f"<div><h3>{_text(operator)}</h3>{chart}</div>")
    yield f'<div class="charts">{"".join(charts_)}</div>'
    rows = [
        {**row, "grows": "without a visible bound" if row["grows_without_bound"] else row["trend"]} for row in over_time.growth
    ]
    yield _table(_GROWTH_COLUMNS, rows)
    yield f'<p class="note">Snapshots in {_text(over_time.directory)}. {escape(_GROWTH_NOTE)}</p>'


def _restoring(contents: SnapshotContents) -> Iterable[str]:
    for said in contents.restoring:
        kind = ' class="bad"' if said.is_bad else ""
        yield f"<p{kind}>{_text(said.text)}</p>"
    if contents.migration:
        yield _table(_MIGRATION_COLUMNS, contents.migration)
