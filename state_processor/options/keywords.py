"""The table of options, collected from their declarations, and options as keyword arguments of functions.

A class declares an option as a field made by :func:`~state_processor.backends.read.read_options.option`: ``ReadOptions`` for
reading state, ``SnapshotAccess`` for opening a snapshot, ``SourceOptions`` and ``SinkOptions`` for the data sources. Signatures,
docstrings, data sources, the command line and ``docs/options.md`` follow the table.

A function takes options as ``**options: Unpack[SomeOptions]`` with one of the ``TypedDict`` of
:mod:`~state_processor.options.groups`, which type checkers and editors understand. :func:`takes_options` does the same for
running Python: it refuses unknown arguments, and lists the options in the function's signature and docstring.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import wraps
from typing import Any, Final, TypeVar

from state_processor.backends.read.read_options import NAMED, Kind
from state_processor.options import groups
from state_processor.options.access import SNAPSHOT_OPTIONS
from state_processor.options.data_sources import (
    CHANGES_FORMAT,
    CHANGES_OPTIONS,
    METADATA_FORMAT,
    METADATA_OPTIONS,
    READ_OPTIONS,
    READING_OPTIONS,
    SAVEPOINT_FORMAT,
    SOURCE_OPTIONS,
    WRITING_OPTIONS,
    hint,
)
from state_processor.options.option import Option, checked
from state_processor.support.mappings import map_values

INFER_KRYO: Final = Option(
    "boolean",
    "Infers `types` from the values, which are read once more for it: of parts that are declared as `List`, `Set`, "
    "`Collection` or `Map` and hold objects of one class. Not an option of the data source.",
    False,
    on=NAMED | {Kind.WHOLE},
    code_only=True,
    argument="infer_kryo",
)
SCRATCH: Final = Option(
    "path",
    "Directory, on every machine that writes, for new files of RocksDB and ForSt, and for encoded entries of remote savepoints "
    "that are written without Spark. By default `STATE_PROCESSOR_SCRATCH`, or the directory for temporary files.",
    operand="DIR",
    on=frozenset({Kind.COPIES}),
    code_only=True,
    argument="scratch",
)
"""An option of writing native savepoints."""
PUSHDOWN: Final = SOURCE_OPTIONS["pushdown"]
STATE_KIND: Final = SOURCE_OPTIONS["kind"]

EFFECTIVE_OPTIONS: Final = (*READ_OPTIONS, INFER_KRYO, PUSHDOWN, *SNAPSHOT_OPTIONS)
"""Options that act on some kinds of reads and not on others."""

KEYWORD_OPTIONS: Final = {o.argument: o for o in (STATE_KIND, *READ_OPTIONS, INFER_KRYO, *SNAPSHOT_OPTIONS, SCRATCH)}
"""The options that methods and functions have as keyword arguments."""

READING: Final = f"reading {SAVEPOINT_FORMAT}"
READING_METADATA: Final = f"reading {METADATA_FORMAT}"
READING_CHANGES: Final = f"reading {CHANGES_FORMAT}"
WRITING: Final = f"writing {SAVEPOINT_FORMAT}"

TEXT_OPTIONS: Final = {
    READING: READING_OPTIONS,
    READING_METADATA: METADATA_OPTIONS,
    READING_CHANGES: CHANGES_OPTIONS,
    WRITING: WRITING_OPTIONS,
}
"""The options of each data source."""


Function = TypeVar("Function", bound=Callable[..., Any])
Source = TypeVar("Source")

_WIDTH: Final = 120


def takes_options(function: Function) -> Function:
    """Give a function the options that its ``Unpack`` names: in its signature, its docstring, and for its callers' mistakes."""
    signature = inspect.signature(function)
    *named, variable = signature.parameters.values()
    group = getattr(groups, variable.annotation.removeprefix("Unpack[").removesuffix("]"))
    annotations = group.__annotations__
    options = [option for option in KEYWORD_OPTIONS.values() if option.argument in annotations]
    names = [p.name for p in named if p.name not in ("self", "cls")] + [o.argument for o in options]

    @wraps(function)
    def checking(*args: Any, **kwargs: Any) -> Any:
        for name in kwargs:
            if name not in names:
                raise TypeError(f"{function.__name__}() got an unexpected keyword argument {name!r}; {hint(name, names)}")
        return function(*map(_repeatable, args), **map_values(_repeatable, kwargs))

    checking.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*named, *(_parameter(o, annotations[o.argument].__forward_arg__) for o in options)]
    )
    checking.__doc__ = f"{inspect.cleandoc(function.__doc__ or '')}\n\nOther Parameters\n----------------\n{described(options)}"
    return checking  # type: ignore[return-value]


def _repeatable(value: Any) -> Any:
    """Return the elements of an iterator as a list: a function may need an argument several times. Rows of Arrow stay rows."""
    return list(value) if isinstance(value, Iterator) and not hasattr(value, "__arrow_c_stream__") else value


def _parameter(option: Option, annotation: str) -> inspect.Parameter:
    default = None if option.default in ((), {}) else option.default
    return inspect.Parameter(option.argument, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def documents(*surfaces: str) -> Callable[[type[Source]], type[Source]]:
    """Return a decorator that lists the options of data sources, by the keys of ``TEXT_OPTIONS``, in the docstring of a class."""

    def decorate(source: type[Source]) -> type[Source]:
        sections = [f"{s.split()[0].capitalize()}\n-------\n{described(TEXT_OPTIONS[s], as_text=True)}" for s in surfaces]
        source.__doc__ = "\n\n".join([inspect.cleandoc(source.__doc__ or ""), *sections])
        return source

    return decorate


def described(options: Iterable[Option], *, as_text: bool = False) -> str:
    """Return the part of a docstring that describes options.

    ``as_text``: true for options of a data source, false for keyword arguments.
    """
    lines = []
    for option in options:
        default = option.kind.encode(option.default) if option.default not in (None, (), {}) else ""
        name, default_text = (option.name, default) if as_text else (option.argument, repr(option.default) if default else "")
        lines.append(f"{name} : {option.kind.expected}" + f"; {default_text} by default" * bool(default_text))
        lines += textwrap.wrap(option.doc, _WIDTH, initial_indent="    ", subsequent_indent="    ")
    return "\n".join(lines)


def check_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the normal forms of keyword arguments. Arguments that are ``None`` are left out."""
    return checked(map(KEYWORD_OPTIONS.__getitem__, arguments), arguments)
