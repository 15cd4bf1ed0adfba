"""The module ``state_processor/options/groups.py`` as the declarations of options describe it.

``./dev generate`` writes the module.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from state_processor.backends.read import read_options
from state_processor.backends.read.option import Kind
from state_processor.options.access import SNAPSHOT_OPTIONS
from state_processor.options.option import Option
from state_processor.options.source import READ_OPTIONS
from state_processor.options.table import INFER_KRYO, SCRATCH

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
    from state_processor.types.declared_types import DeclaredTypes
    from state_processor.types.python_types import PythonTypeArgument

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

    def lines(self) -> Iterator[str]:
        """The lines of the class."""
        yield f"\n\nclass {self.name}({', '.join(self.groups) or 'TypedDict'}, total=False):"
        yield f'    """{self.doc}"""\n'
        for option in self.options:
            acts = option.on if option in READING else option.applies_to
            if self.kind in acts and option.argument not in self.without:
                yield f"    {option.argument}: {annotation(option)}"


CHOICES: Final = {str(alias): name for name, alias in vars(read_options).items() if not isinstance(alias, str)}
"""The names of choices."""

READING: Final = (*READ_OPTIONS, INFER_KRYO)
OPENING: Final = SNAPSHOT_OPTIONS

GROUPS: Final = (
    Group("TimerOptions", "Options of reading timers.", READING, Kind.TIMERS),
    Group("OperatorStateOptions", "Options of reading list, union and broadcast state.", READING, Kind.BROADCAST),
    Group("KeyedStateOptions", "Options of reading keyed and window state.", READING, Kind.KEYED),
    Group("LookupOptions", "Options of looking up a key.", READING, Kind.LOOKUP),
    Group("CountOptions", "Options of counting differences.", READING, Kind.COUNTS),
    Group("DiffOptions", "Options of comparing states.", READING, Kind.DIFF),
    Group("AccessOptions", "Options of opening a snapshot whose files are where they were.", OPENING, without=("path_mapping",)),
    Group("DirectoryOptions", "Options of looking for snapshots and their files.", OPENING, Kind.SNAPSHOTS),
    Group(
        "OpeningOptions",
        "Options of opening a snapshot without reading values: metadata, bytes, state of connectors.",
        OPENING,
        Kind.TABLES,
    ),
    Group("SnapshotOptions", "Options of opening a snapshot.", OPENING, Kind.KEYED),
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
        groups=("CountOptions", "OpeningOptions"),
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
    text = INTRODUCTION.replace("OWN_CHOICES", own) + "\n".join(line for group in GROUPS for line in group.lines()) + "\n"
    formatter = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(MODULE), "-"]
    return subprocess.run(formatter, input=text, capture_output=True, text=True, check=True).stdout
