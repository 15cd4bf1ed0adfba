"""The module ``state_processor/options/groups.py`` as the declarations of options describe it.

``./dev generate`` writes the module.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from state_processor.backends.read import read_options
from state_processor.backends.read.read_options import Kind
from state_processor.options.access import SNAPSHOT_OPTIONS
from state_processor.options.data_sources import READ_OPTIONS
from state_processor.options.keywords import INFER_KRYO, SCRATCH
from state_processor.options.option import Option

MODULE: Final = Path(__file__).parents[3] / "state_processor" / "options" / "groups.py"

INTRODUCTION: Final = '''\
"""Groups of options: the keyword arguments of methods and functions, by the kinds of reads that they make.

``./dev generate`` writes this module from the declarations of options.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from datetime import datetime, timedelta
    from os import PathLike
    from typing import TypeAlias

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from state_processor.backends.read.read_options import OWN_CHOICES
    from state_processor.backends.state.column_types import Undescribed
    from state_processor.serializers.base import TypeSerializer
    from state_processor.serializers.decode_options import Nanos
    from state_processor.types.declared_types import DeclaredTypes, PythonTypeArgument

    Keys: TypeAlias = Sequence[Any] | pa.Table | DataFrame
'''


@dataclass(frozen=True)
class Group:
    """A ``TypedDict``: options of a table that act on a kind of read, with exceptions, or the options of other groups."""

    name: str
    doc: str
    options: Collection[Option] = ()
    kind: Kind = Kind.KEYED
    without: Collection[str] = ()
    groups: Collection[str] = ()

    @property
    def own(self) -> dict[str, str]:
        """Annotations of its options by keyword argument."""
        acting = (o for o in self.options if self.kind in (o.on if o in READING else o.applies_to))
        return {o.argument: annotation(o) for o in acting if o.argument not in self.without}

    def lines(self, earlier: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
        """The lines of the class. It extends the largest earlier class that has options of this class alone."""
        narrower = [name for name, others in earlier.items() if others and others.items() <= self.own.items()]
        base = max(narrower, key=lambda name: len(earlier[name]), default=None)
        bases = [*self.groups, *([base] if base else [])] or ["TypedDict"]
        yield f"\n\nclass {self.name}({', '.join(bases)}, total=False):"
        yield f'    """{self.doc}"""\n'
        for argument, type_ in self.own.items():
            if base is None or argument not in earlier[base]:
                yield f"    {argument}: {type_}"


CHOICES: Final = {str(alias): name for name, alias in vars(read_options).items() if not isinstance(alias, str)}
"""The names of choices."""

READING: Final = (*READ_OPTIONS, INFER_KRYO)
OPENING: Final = SNAPSHOT_OPTIONS

GROUPS: Final = (
    Group("CountOptions", "Options of counting differences.", READING, Kind.COUNTS),
    Group("DiffOptions", "Options of comparing states.", READING, Kind.DIFF),
    Group("LookupOptions", "Options of looking up a key.", READING, Kind.LOOKUP),
    Group("TimerOptions", "Options of reading timers.", READING, Kind.TIMERS),
    Group("OperatorStateOptions", "Options of reading list, union and broadcast state.", READING, Kind.BROADCAST),
    Group("KeyedStateOptions", "Options of reading keyed and window state.", READING, Kind.KEYED),
    Group("DirectoryOptions", "Options of looking for snapshots and their files.", OPENING, Kind.SNAPSHOTS),
    Group(
        "OpeningOptions",
        "Options of opening a snapshot without reading values: metadata, bytes, state of connectors.",
        OPENING,
        Kind.TABLES,
    ),
    Group("EntryOptions", "Options of opening a snapshot and reading bytes of entries, or counting entries.", OPENING, Kind.RAW),
    Group("SnapshotOptions", "Options of opening a snapshot.", OPENING, Kind.KEYED),
    Group("AccessOptions", "Options of opening a snapshot whose files are where they were.", OPENING, without=("path_mapping",)),
    Group("WriteOptions", "Options of writing a savepoint.", (SCRATCH,), Kind.COPIES),
    Group(
        "NewSavepointOptions",
        "Options of writing a savepoint without a source savepoint.",
        OPENING,
        without=("path_mapping", "allow_paths", "plan", "uids"),
        groups=("WriteOptions",),
    ),
    Group(
        "ChangedSavepointOptions",
        "Options of opening a source savepoint and writing a savepoint.",
        groups=("SnapshotOptions", "WriteOptions"),
    ),
    Group(
        "CountSnapshotOptions",
        "Options of opening two snapshots and counting their differences.",
        groups=("CountOptions", "EntryOptions"),
    ),
    Group(
        "TimerSnapshotOptions",
        "Options of opening a snapshot and reading its timers.",
        groups=("TimerOptions", "SnapshotOptions"),
    ),
    Group(
        "LookupSnapshotOptions",
        "Options of opening a snapshot and looking up a key.",
        groups=("LookupOptions", "SnapshotOptions"),
    ),
    Group(
        "DiffSnapshotOptions",
        "Options of opening two snapshots and comparing them.",
        groups=("DiffOptions", "SnapshotOptions"),
    ),
    Group(
        "StateSnapshotOptions",
        "Options of opening a snapshot and reading any state in it.",
        groups=("KeyedStateOptions", "SnapshotOptions"),
    ),
)


def annotation(option: Option) -> str:
    """The type of the keyword argument."""
    type_ = option.kind.annotation if isinstance(option.values, str) else CHOICES[str(option.values)]
    return f"{type_} | None" if option.default in (None, (), {}) else type_


def page() -> str:
    """The text of the module."""
    named = {CHOICES[str(o.values)] for o in READ_OPTIONS if not isinstance(o.values, str)}
    own = ", ".join(sorted(name for name in named if f"import {name}\n" not in INTRODUCTION))
    lines: list[str] = []
    earlier: dict[str, dict[str, str]] = {}
    for group in GROUPS:
        lines += group.lines(earlier)
        earlier[group.name] = group.own
    text = INTRODUCTION.replace("OWN_CHOICES", own) + "\n".join(lines) + "\n"
    formatter = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(MODULE), "-"]
    return subprocess.run(formatter, input=text, capture_output=True, text=True, check=True).stdout
