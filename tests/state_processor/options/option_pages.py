"""The page docs/options.md as the table of options describes it.

``./dev generate`` writes the page.
"""

from __future__ import annotations

from collections.abc import Iterable

from state_processor.backends.read.read_options import Kind
from state_processor.options.access import SNAPSHOT_OPTIONS
from state_processor.options.data_sources import READ_OPTIONS, STREAM_OPTIONS
from state_processor.options.keywords import (
    EFFECTIVE_OPTIONS,
    INFER_KRYO,
    READING,
    READING_METADATA,
    SCRATCH,
    TEXT_OPTIONS,
    WRITING,
)
from state_processor.options.option import Option

INTRODUCTION = """\
# Options

An option has the same name, values and default wherever it is accepted: as a keyword argument of `SavepointReader`,
`SavepointWriter` and `sp.arrow`, and as an option of the data sources (in camel case, with its value as text). The command line
accepts the options with a flag in these tables. Unknown options are refused; the message names the most similar option.

`./dev generate` writes this page.
"""

BESIDES = """\
`schema` selects the columns to read and their types: wider types, `decimal(p,s)` for numbers in text (`BigDecimal`), or types of
`sp.Types`. With types of `sp.Types`, the state is restored by Flink's rules. Other columns and fields are skipped, not
decoded. A value that does not fit is an error. For the data source it is `spark.read.schema(…)`.
"""


EFFECTS = """\
● the option changes the rows. ○ the option is accepted, but the rows already have the requested form. Without a mark, the option
is refused, or the method does not have the argument. An option that needs another option is refused without it.
"""


def page() -> str:
    others = [o for o in TEXT_OPTIONS[READING] if o not in (*READ_OPTIONS, *SNAPSHOT_OPTIONS)]
    tables = [o for o in TEXT_OPTIONS[READING_METADATA] if o not in SNAPSHOT_OPTIONS]
    written = [o for o in TEXT_OPTIONS[WRITING] if o not in SNAPSHOT_OPTIONS]
    sections = [
        ("Reading state", "Methods and functions that read state have the arguments that apply to the kind of state.",
         section((*READ_OPTIONS, INFER_KRYO)) + "\n" + BESIDES),
        ("Where options act", EFFECTS, effects()),
        ("Opening a snapshot", "Every call with the path of a snapshot accepts these options.", section(SNAPSHOT_OPTIONS)),
        ("Reading with `flink-savepoint`", "In addition to the options above:", section(others)),
        ("Reading with `flink-savepoint-metadata`", "In addition to the options of opening a snapshot:", section(tables)),
        ("Reading with `flink-savepoint-changes`", "In addition to the options of differences and of opening a snapshot:",
         section(STREAM_OPTIONS)),
        ("Writing with `SavepointWriter`", "In addition to the options of opening the source savepoint:", section((SCRATCH,))),
        ("Writing with `flink-savepoint`", "In addition to the options of opening the source savepoint:", section(written)),
    ]  # fmt: skip
    return "\n".join([INTRODUCTION, *(f"## {title}\n\n{text}\n\n{table}" for title, text, table in sections)])


def effects() -> str:
    """The kinds of reads that each option acts on, and the options that it needs."""
    rows = [["option", "needs", *(kind.value for kind in Kind)], ["---", "---", *([":-:"] * len(Kind))]]
    for o in EFFECTIVE_OPTIONS:
        marks = ["●" if kind in o.on else "○" if kind in o.holds_on else "" for kind in Kind]
        rows.append([f"`{o.argument}`", " or ".join(f"`{need}`" for need in o.needs), *marks])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def section(options: Iterable[Option]) -> str:
    rows = [["argument", "option", "values", "default", "meaning"], ["---"] * 5]
    for o in options:
        default = "" if o.default in (None, (), {}) else f"`{o.kind.encode(o.default)}`"
        name = "" if o.code_only else f"`{o.name}`"
        command_line = f" On the command line `{o.flag}`." if o.flag else ""
        rows.append([f"`{o.argument}`", name, o.kind.expected.replace("|", "\\|"), default, o.doc + command_line])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)
