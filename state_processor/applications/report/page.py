"""The command ``report``, and the page about a snapshot: self-contained HTML. All text of the snapshot is escaped."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from itertools import groupby
from typing import Any, Final

import numpy as np

from state_processor import __version__
from state_processor.applications.report import charts
from state_processor.applications.report.contents import KEYS, Distribution, LargestKeys, SnapshotMeasures, Subtasks, contents
from state_processor.command_line import (
    SNAPSHOT,
    argument,
    check_new,
    command,
    count_text,
    flag_values,
    flags,
    html_table,
    new_file,
    not_negative,
    say,
    size_text,
    switch,
    text_of,
)
from state_processor.options import Kind, SnapshotAccess, check_given
from state_processor.snapshots import some_of
from state_processor.states import ENTRIES, SIZE_IN_BYTES
from state_processor.support import presentable, unrenamed

_LARGE_KEY: Final = 0.05
"""The minimum share of an operator's bytes that makes a key a finding."""
_UNEVEN: Final = 1.5
"""The minimum size of the largest subtask, as a multiple of the mean, that is a finding."""
_LONGEST_KEY: Final = 200


def findings(contents: SnapshotMeasures) -> Iterator[str]:
    """Yield sentences about uids, growth, and about skew: the most bytes above a fair share come first.

    Skew is left out that costs nothing: key groups that are smaller than a subtask's share can be spread, and few keys leave key
    groups empty.
    """
    unmatched = contents.unmatched_uids
    if unmatched:
        number = len(unmatched)
        uids = f"the uid {some_of(unmatched)}" if number == 1 else f"{count_text(number)} of the given uids: {some_of(unmatched)}"
        yield f"No operator has {uids}."
    if contents.uids_hint:
        yield contents.uids_hint
    for row in contents.over_time.growth if contents.over_time is not None else ():
        if row["grows_without_bound"]:
            state = row["state"].strip("()") if row["state_name"] is None else f"state {row['state']}"
            yield f"{row['operator']}: {state} grows without a visible bound: {row['evidence']}."
    uneven: list[tuple[float, str]] = []
    for operator, groups in contents.key_groups.items():
        if groups.total:
            for excess, text in _of_operator(groups, contents.subtasks[operator], contents.keys.get(operator)):
                uneven.append((excess, f"{operator}: {text[0].lower()}{text[1:]}"))
    for _, text in sorted(uneven, key=lambda excess_and_text: -excess_and_text[0]):
        yield text


def _of_operator(groups: Distribution, subtasks: Subtasks, keys: LargestKeys | None) -> Iterator[tuple[float, str]]:
    """Yield sentences with the number of bytes of the largest part above its fair share."""
    share = groups.total / len(subtasks.key_groups)
    if keys is not None and keys.rows and keys.rows[0][SIZE_IN_BYTES] >= _LARGE_KEY * groups.total:
        yield keys.rows[0][SIZE_IN_BYTES], largest_key_text(keys, groups)
    if len(groups.sizes) > 1 and groups.most >= share:
        yield groups.most - groups.total / len(groups.sizes), key_groups_text(groups)
    if len(subtasks.key_groups) > 1 and (subtasks.sizes.empty or subtasks.sizes.skew >= _UNEVEN):
        yield subtasks.sizes.most - share, subtasks_text(subtasks)


def key_groups_text(groups: Distribution) -> str:
    """Describe the distribution over key groups: the number of empty ones, and the largest as a multiple of the mean."""
    return f"{_empty(groups, 'key group')}; the largest is {times_text(groups.skew)} the mean."


def subtasks_text(subtasks: Subtasks) -> str:
    """Describe the distribution over subtasks, and whether all of them own the same number of key groups."""
    sizes, owned = subtasks.sizes, subtasks.key_groups
    text = f"{_empty(sizes, 'subtask')}; the largest has {size_text(sizes.most)}, {times_text(sizes.skew)} the mean."
    numbers, counts = np.unique(owned, return_counts=True)
    if len(numbers) == 1:
        return text
    (smaller, larger), (with_few, with_more) = numbers.tolist(), counts.tolist()
    shares = f"{count_text(with_more)} of them own {count_text(larger)} key groups"
    return f"{text} {shares}, {count_text(with_few)} own {count_text(smaller)}."


def largest_key_text(keys: LargestKeys, groups: Distribution) -> str:
    """Describe the largest key."""
    first = keys.rows[0]
    entries = f"{count_text(first[ENTRIES])} {'entry' if first[ENTRIES] == 1 else 'entries'}"
    return (
        f"The key {key_text(first['key'])} has {size_text(first[SIZE_IN_BYTES])} in {entries}, "
        f"{share_text(first[SIZE_IN_BYTES] / groups.total)} of all bytes."
    )


def compared_text(keys: LargestKeys, groups: Distribution) -> str:
    """Describe the compared keys."""
    number = len(groups.sizes)
    if keys.compared == number:
        return f"All keys of the {count_text(number)} key groups were measured."
    return (
        f"The keys of the {count_text(keys.compared)} largest of {count_text(number)} key groups were measured, with "
        f"{share_text(keys.share)} of the bytes. A key of another key group has at most {size_text(keys.elsewhere)}."
    )


def key_text(key: Any) -> str:
    """Return a key in one line; a long key is cut, with its length."""
    text = text_of(key)
    return text if len(text) <= _LONGEST_KEY else f"{text[:_LONGEST_KEY]}… ({count_text(len(text))} characters)"


def times_text(multiple: float) -> str:
    """Return a multiple: ``7.5 times``."""
    return f"{multiple:,.1f} times"


def share_text(share: float) -> str:
    """Return a share in per cent. Only the whole is 100 %, and only zero is 0 %."""
    if not 0.0005 <= share < 0.9995 and 0 < share < 1:
        return "under 0.1 %" if share < 0.5 else "over 99.9 %"
    return f"{share * 100:.1f} %"


def _empty(parts: Distribution, name: str) -> str:
    number = len(parts.sizes)
    if not parts.empty:
        return f"None of {count_text(number)} {name}s is empty" if number > 1 else f"The only {name} has state"
    return f"{count_text(parts.empty)} of {count_text(number)} {name}s {'is' if parts.empty == 1 else 'are'} empty"


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
    SIZE_IN_BYTES: "size",
    "key_type": "key",
    "map_key_type": "map key",
    "value_type": "value",
    "ttl": "TTL",
    "backend": "backend",
}
_SUBTASK_COLUMNS: Final = {
    "subtask": "subtask",
    SIZE_IN_BYTES: "size",
    "multiple": "times the mean",
    ENTRIES: "entries",
    "key_groups": "key groups",
    "filled": "with state",
}
_KEY_COLUMNS: Final = {"key": "key", SIZE_IN_BYTES: "size", "share": "of all bytes", ENTRIES: "entries"}
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
_MIGRATION_COLUMNS: Final = unrenamed(("operator", "state", "kind", "outcome", "notes"))


def page(contents: SnapshotMeasures) -> str:
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


def _facts(contents: SnapshotMeasures) -> str:
    facts = {name: size_text(value) if name == "size" else _fact(value) for name, value in contents.facts.items()}
    facts["snapshot stored"] = "unknown to the storage" if contents.stored is None else _time(contents.stored)
    facts["report made"] = _time(contents.reported)
    return f"<dl>{''.join(f'<div><dt>{_text(n)}</dt><dd>{_text(v)}</dd></div>' for n, v in facts.items())}</dl>"


def _fact(value: Any) -> Any:
    return count_text(value) if isinstance(value, int) else value


def _time(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def _findings(contents: SnapshotMeasures) -> str:
    items = "".join(f"<li>{_text(sentence)}</li>" for sentence in findings(contents))
    return f'<ul class="findings">{items}</ul>' if items else '<p class="note">Nothing stands out.</p>'


def _table(columns: Mapping[str, str], rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a table of the columns with a value in some row, with other names."""
    titles: list[str] = []
    renamed: list[dict[str, Any]] = [{} for _ in rows]
    for name, title in columns.items():
        values = [row.get(name) for row in rows]
        if any(value not in (None, "") for value in values):
            titles.append(title)
            for row, value in zip(renamed, values, strict=True):
                row[title] = value
    table = html_table(titles, renamed, sizes=frozenset({"size"}), counts=_COUNTS, longest=_LONGEST)
    return f'<div class="scroll">{table}</div>' if rows else ""


def _states(contents: SnapshotMeasures) -> Iterable[str]:
    for operator, rows in groupby(contents.states, key=lambda row: row["operator"]):
        yield f"<h3>{_text(operator)}</h3>{_table(_STATE_COLUMNS, list(rows))}"
    if contents.key_groups:
        yield (
            '<p class="note">Sizes of keyed states are those of keys, namespaces and values as a canonical savepoint has them, '
            "without lengths.</p>"
        )


def _key_groups(contents: SnapshotMeasures) -> Iterable[str]:
    for operator, groups in contents.key_groups.items():
        if groups.total:
            largest = f"key group {count_text(groups.largest)} has {size_text(groups.most)}"
            yield (
                f"<h3>{_text(operator)}</h3>{charts.heat_map(groups)}"
                f'<p class="note">{key_groups_text(groups)} All have {size_text(groups.total)}, {largest}. '
                "The darker, the larger.</p>"
            )


def _subtasks(contents: SnapshotMeasures) -> Iterable[str]:
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
    numbers = {
        ENTRIES: subtasks.entries,
        "key_groups": subtasks.key_groups,
        "filled": subtasks.filled,
        SIZE_IN_BYTES: sizes.sizes,
    }
    values = {name: int(column[number]) for name, column in numbers.items()}
    return {"subtask": number, "multiple": round(sizes.multiple(number), 1), **values}


def _keys(contents: SnapshotMeasures) -> Iterable[str]:
    for operator, keys in contents.keys.items():
        groups = contents.key_groups[operator]
        rows = [{**row, "key": key_text(row["key"]), "share": share_text(row[SIZE_IN_BYTES] / groups.total)} for row in keys.rows]
        yield f'<h3>{_text(operator)}</h3>{_table(_KEY_COLUMNS, rows)}<p class="note">{compared_text(keys, groups)}</p>'


def _timers(contents: SnapshotMeasures) -> Iterable[str]:
    charts_ = []
    for (operator, domain), times in contents.timers.items():
        notes = [f"{count_text(times.total)} timers"]
        if times.outside:
            notes.append(f"{count_text(times.outside)} at the end of the input or of time")
        heading = f"<h3>{_text(operator)}, {_text(domain.replace('_', ' '))}</h3>"
        charts_.append(f'<div>{heading}{charts.times(times)}<p class="note">{", ".join(notes)}</p></div>')
    if charts_:
        yield f'<div class="charts">{"".join(charts_)}</div><p class="note">Times are in UTC.</p>'


def _ages(contents: SnapshotMeasures) -> Iterable[str]:
    as_of = max((times.last for times in contents.accesses.values()), default=0)
    charts_ = []
    for (operator, state), times in contents.accesses.items():
        chart = f"<h3>{_text(operator)}, {_text(state)}</h3>{charts.ages(times, as_of)}"
        charts_.append(f'<div>{chart}<p class="note">{count_text(times.total)} values</p></div>')
    if charts_:
        since = f"Ages refer to {charts.instant_text(as_of)} UTC, the latest access." if as_of else ""
        yield f'<div class="charts">{"".join(charts_)}</div><p class="note">{since}</p>'


def _over_time(contents: SnapshotMeasures) -> Iterable[str]:
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
    rows = []
    for row in over_time.growth:
        trend = "without a visible bound" if row["grows_without_bound"] else row["trend"]
        rows.append({**row, "grows": trend})
    yield _table(_GROWTH_COLUMNS, rows)
    yield f'<p class="note">Snapshots in {_text(over_time.directory)}. {escape(_GROWTH_NOTE)}</p>'


def _restoring(contents: SnapshotMeasures) -> Iterable[str]:
    for finding in contents.restoring:
        kind = ' class="bad"' if finding.is_bad else ""
        yield f"<p{kind}>{_text(finding.text)}</p>"
    if contents.migration:
        yield _table(_MIGRATION_COLUMNS, contents.migration)


# The style sheet: text wraps at any width; wide tables scroll inside of the page.

STYLE: Final = """
:root { color-scheme: light dark; --text: #1d2433; --muted: #5b6478; --page: #f6f7f9; --card: #ffffff; --line: #d9dde5;
  --accent: #2f6fb2; --bad: #b3261e; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e4e7ee; --muted: #9aa3b5; --page: #14171d; --card: #1d2129; --line: #343b48;
    --accent: #6aa9e9; --bad: #ff8a80; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1280px; padding: 1.5rem 1rem 3rem; background: var(--page); color: var(--text);
  font: 15px/1.45 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.4rem; margin: 0 0 0.2rem; }
h2 { font-size: 1.1rem; margin: 0 0 0.7rem; }
h3 { font-size: 0.95rem; margin: 0.9rem 0 0.3rem; }
p { margin: 0.3rem 0; }
.path { color: var(--muted); }
.note { color: var(--muted); font-size: 0.87rem; }
.bad { color: var(--bad); }
.findings { margin: 0; padding-left: 1.2rem; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 1rem; margin-top: 1rem; }
dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: 0.7rem 1.5rem; margin: 0; }
dt { color: var(--muted); font-size: 0.82rem; }
dd { margin: 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 0.87rem; }
th { color: var(--muted); font-weight: 600; white-space: nowrap; }
th, td { padding: 0.28rem 0.5rem; border-bottom: 1px solid var(--line); vertical-align: top; }
td { overflow-wrap: break-word; max-width: min(20rem, 75vw); font-variant-numeric: tabular-nums; }
td[style*="right"] { white-space: nowrap; }
td:first-child, th:first-child { padding-left: 0; }
td:last-child { max-width: min(36rem, 75vw); }
svg { display: block; width: 100%; }
svg.bars { height: 90px; border-bottom: 1px solid var(--line); }
svg.lines { overflow: visible; }
svg.heat { height: 26px; border: 1px solid var(--line); border-radius: 3px; }
.bar { fill: var(--accent); }
.line { stroke: var(--accent); stroke-width: 1.5px; fill: none; vector-effect: non-scaling-stroke; }
.dot { stroke: var(--accent); stroke-width: 7px; stroke-linecap: round; vector-effect: non-scaling-stroke; }
.grid { stroke: var(--line); fill: none; vector-effect: non-scaling-stroke; }
.chart { display: grid; grid-template-columns: auto minmax(0, 1fr); gap: 0 0.5rem; padding-top: 0.5rem; }
.chart .axis { grid-column: 2; }
.ticks { display: flex; flex-direction: column; justify-content: space-between; align-items: flex-end; color: var(--muted);
  font-size: 0.75rem; white-space: nowrap; font-variant-numeric: tabular-nums; }
.ticks span { height: 0; line-height: 0; }
.axis { display: flex; justify-content: space-between; gap: 1rem; color: var(--muted); font-size: 0.8rem; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); gap: 0 2rem; }
footer { color: var(--muted); font-size: 0.8rem; margin-top: 1rem; }
"""


@command(
    "report",
    "a page about a snapshot, as HTML",
    "Write a page about a snapshot as one file without scripts: findings, operators, states with types and sizes, skew "
    "over key groups and subtasks, the largest keys, timers, ages of values with time-to-live, growth over several "
    "checkpoints, and the outcome of a migration to Flink 2.x.",
    SNAPSHOT,
    argument("-o", "--output", required=True, metavar="FILE", help="the new file"),
    switch("--quick", "read only _metadata and the headers of state, not the values"),
    argument(
        "--keys",
        type=not_negative,
        default=KEYS,
        metavar="N",
        dest="largest_keys",
        help="number of the largest keys to show for each operator (default: %(default)s); 0 omits keys",
    ),
    argument(
        "--history",
        metavar="DIR",
        help="a directory with further snapshots of the job, for the growth of states; without it, the other retained "
        "checkpoints of the job are used if PATH is a checkpoint",
    ),
    flags(Kind.REPORTS),
    python=(),
)
def _report(options: argparse.Namespace) -> None:
    check_new(options.output)
    arguments = flag_values(options)
    if options.quick or not options.largest_keys:
        check_given(arguments, ("time_zone",), "where the report shows keys: leave out --quick and --keys 0")
    access, values = SnapshotAccess.of(**arguments), not options.quick
    measured = contents(options.path, access, values=values, keys=options.largest_keys, history=options.history)
    with new_file(options.output) as file:
        file.write(page(measured).encode())
    say(options.output)
