"""Commands: functions with their arguments, flags of options among them, and what they print: tables, JSON, and new files.

:func:`command` makes a command of a function, which gets the parsed arguments and prints. If a public function of
Python does the same, positional arguments and defaults follow from its parameters (:func:`parameters_of`), and :func:`call`
passes it the arguments by the names of these parameters. A module of commands is imported if its command is called, or the help
of all commands. Entry points name commands of installed packages.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, is_dataclass
from datetime import datetime
from inspect import Parameter, cleandoc, signature, unwrap
from itertools import chain, islice
from pkgutil import resolve_name
from types import ModuleType
from typing import Any, Final, TypeVar
from uuid import uuid4

import pyarrow as pa

from state_processor.backends.files.location import Location
from state_processor.backends.read.read_options import Kind
from state_processor.backends.read.schemas import spark_ddl
from state_processor.commands.terminal import complain, say, say_json
from state_processor.display.showing import NAMES, SIZES
from state_processor.display.text_tables import json_text, render_records, render_vertical, size_text
from state_processor.options.access import SNAPSHOT_OPTIONS
from state_processor.options.data_sources import READ_OPTIONS
from state_processor.options.option import FIELDS, Option
from state_processor.serializers.registry import entry_points
from state_processor.support.doors import flag_name
from state_processor.support.errors import OptionError, WriteError, describe
from state_processor.types.answers import Answer
from state_processor.types.identifier import OperatorIdentifier

Run = Callable[[argparse.Namespace], "bool | Answer | None"]
"""Runs a command. A command with an answer for scripts returns it: the exit code of false is 1."""

Result = TypeVar("Result")
Argument = Callable[[Any], object]
"""Adds an argument, or several, to a parser or to a group of a parser."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command."""

    name: str
    help: str  # its result, as a noun phrase
    description: str  # its effect, as a sentence
    arguments: tuple[Argument, ...]  # its arguments, in the order of its help
    run: Run  # the function
    python: tuple[str, ...]  # functions and methods that do the same in Python; the command has the parameters of the first
    fails: str = ""  # when its answer is no, and its exit code 1; empty if it does not have an answer for scripts
    unchecked: str = ""  # when its exit code is 3; empty if its answers are yes and no

    def add_to(self, commands: Any) -> None:
        """Add the command to the parsers of the command line."""
        sentences = [
            self.python and f"In Python: {', '.join(self.python)}.",
            self.fails and f"The exit code is 1 if {self.fails}.",
            self.unchecked and f"The exit code is 3 if {self.unchecked}: this is not a success.",
        ]
        epilog = " ".join(sentence for sentence in sentences if sentence)
        parser = commands.add_parser(self.name, help=self.help, description=self.description, epilog=epilog or None)
        _add_all(parser, self.arguments)
        if self.function is not None:
            parameters_of(self.function)(parser)
        parser.set_defaults(run=self.run)

    @property
    def function(self) -> Callable[..., Any] | None:
        """The function whose parameters the command has; ``None`` for a method: it needs an open reader or writer."""
        name = next(iter(self.python), "")
        return resolve_name(re.sub(r"^sp\.", "state_processor.", name)) if name[:1].islower() else None


def command(
    name: str, help: str, description: str, *arguments: Argument, python: tuple[str, ...], fails: str = "", unchecked: str = ""
) -> Callable[[Run], Command]:
    """Return a decorator that makes a command of a function; see :class:`Command`."""
    return lambda run: Command(name, help, description, arguments, run, python, fails, unchecked)


def commands_of(module: ModuleType) -> list[Command]:
    """Return the commands that a module defines, in their order."""
    return [value for value in vars(module).values() if isinstance(value, Command)]


def argument(*names: str, **settings: Any) -> Argument:
    """Return an argument, as ``ArgumentParser.add_argument`` describes it."""
    return lambda parser: parser.add_argument(*names, **settings)


def switch(name: str, help: str, clears: str | None = None) -> Argument:
    """Return a flag without an operand. It makes its own argument true, or the argument ``clears`` false."""
    return argument(name, action="store_true" if clears is None else "store_false", dest=clears, help=help)


def repeated(name: str, help: str, **settings: Any) -> Argument:
    """Return a flag that may be repeated. Its operands are a list."""
    return argument(name, action="append", default=[], help=f"{help}; may be repeated", **settings)


def group(title: str, *arguments: Argument) -> Argument:
    """Return arguments with a title of their own in the help."""
    return lambda parser: _add_all(parser.add_argument_group(title), arguments)


def one_of(*arguments: Argument, required: bool = False) -> Argument:
    """Return arguments that exclude each other; one of them is needed if ``required`` is true."""
    return lambda parser: _add_all(parser.add_mutually_exclusive_group(required=required), arguments)


def several(*arguments: Argument) -> Argument:
    """Return arguments that several commands have together."""
    return lambda parser: _add_all(parser, arguments)


def _add_all(parser: Any, arguments: Iterable[Argument]) -> None:
    for add in arguments:
        add(parser)


def flags(*kinds: Kind, without: Collection[str] = ()) -> Argument:
    """Return the flags of the options that act on some kinds of reads; see :func:`add_flags`."""
    return lambda parser: add_flags(parser, kinds, without=without)


def flag(option: Option, note: str = "") -> Argument:
    """Return the flag of an option; a note extends its help."""
    return lambda parser: add_flag(parser, option, note)


def parameters_of(function: Callable[..., Any]) -> Argument:
    """Return the defaults and the positional arguments that a command takes from a function's parameters.

    An argument with the name of a parameter has its default, unless the argument has its own. Without such an argument, a
    required parameter is a positional argument, and so is the first parameter, which names the subject of the function.
    """

    def add(parser: argparse.ArgumentParser) -> None:
        arguments = {action.dest for action in parser._actions}
        parameters = [p for p in signature(unwrap(function)).parameters.values() if p.name != "self"]
        for parameter in parameters:
            is_required = parameter.default is Parameter.empty
            if parameter.name in arguments:
                if not is_required and parser.get_default(parameter.name) is None:
                    parser.set_defaults(**{parameter.name: parameter.default})
            elif parameter.kind is Parameter.POSITIONAL_OR_KEYWORD and (is_required or parameter is parameters[0]):
                _add_positional(parser, unwrap(function), parameter)

    return add


def _add_positional(parser: argparse.ArgumentParser, function: Any, parameter: Parameter) -> None:
    """Add a parameter as a positional argument. The first sentence of the docstring about the parameter is its help."""
    name = parameter.name
    annotation = str(function.__globals__.get(parameter.annotation, parameter.annotation))
    number = "+" if re.search(r"(Sequence|Iterable)\[", annotation) else None
    documentation = re.search(rf"^{name}\n +(.*?)(?:\.\s|\.?\Z)", cleandoc(function.__doc__ or ""), re.MULTILINE | re.DOTALL)
    sentence = re.sub(r":\w+:`~?(?:\w+\.)*(\w+)`|`", r"\1", " ".join(documentation[1].split())) if documentation else ""
    kind: Any = positive if annotation == "int" else None
    parser.add_argument(
        name,
        metavar=name.upper(),
        nargs=number if parameter.default is Parameter.empty else "?",
        type=kind,
        help=f"{sentence[:1].lower()}{sentence[1:]}".replace("%", "%%"),
    )


def arguments_of(function: Callable[..., Any], options: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of a command that have the names of a function's parameters.

    ``uid`` is the operator that a command names, by whichever flag. An argument that is not given is left to the function.
    """
    values = vars(options)
    if "uid_hash" in values:
        values = {**values, "uid": named_operator(options)}
    parameters = signature(unwrap(function)).parameters
    named = {name: values[name] for name in parameters if name in values}
    return {name: value for name, value in named.items() if value is not None or parameters[name].default is Parameter.empty}


def call(function: Callable[..., Result], options: argparse.Namespace, /, **arguments: Any) -> Result:
    """Call a function as a command says: with :func:`arguments_of` it, and with the values of the flags of options.

    ``**arguments``: replace arguments of the command.
    """
    return function(**{**arguments_of(function, options), **flag_values(options), **arguments})


UID_HELP: Final = "the operator, by uid or by the 32 digits of its hash"
_UID_HASH: Final = argument("--uid-hash", help="the operator, by the hash of its uid")

SNAPSHOT: Final = argument("path", metavar="PATH", help="directory of the snapshot, or its _metadata: a path or URL")
UID: Final = argument("--uid", required=True, help=UID_HELP)
OPERATOR: Final = one_of(argument("--uid", help=UID_HELP), _UID_HASH, required=True)
ANY_OPERATOR: Final = one_of(argument("--uid", help=f"only {UID_HELP}"), _UID_HASH)
VERTICAL: Final = switch("--vertical", "a line for each value; values are not shortened")
PRINTING: Final = group("options of printing", switch("--json", "one JSON object per line instead of a table"), VERTICAL)
JSON_LINES: Final = switch("--json", "one JSON object per line instead of text")


def named_operator(options: argparse.Namespace) -> OperatorIdentifier | None:
    """Return the operator that the arguments name, if any."""
    if options.uid:
        return OperatorIdentifier.of(options.uid)
    return OperatorIdentifier.for_uid_hash(options.uid_hash) if options.uid_hash else None


def required_operator(options: argparse.Namespace) -> OperatorIdentifier:
    """Return the operator that the arguments name; it is required."""
    return OperatorIdentifier.of(options.uid) if options.uid else OperatorIdentifier.for_uid_hash(options.uid_hash or "")


def by_argument(choices: Collection[str]) -> Argument:
    """Return the flag ``--by``, which takes a value of Python's argument ``by``."""
    return argument(
        "--by",
        choices=tuple(choices),
        default="state",
        help="what rows are about (default: %(default)s)",
    )


def positive(text: str) -> int:
    """Return a positive number."""
    number = _whole_number(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not positive")
    return number


def not_negative(text: str) -> int:
    """Return a non-negative number."""
    number = _whole_number(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text} is negative")
    return number


SEARCHED: Final = several(
    argument(
        "--depth",
        type=not_negative,
        metavar="N",
        help="levels below DIRECTORY to search (default: %(default)s); deeper directories are reported on standard error",
    ),
    flags(Kind.SNAPSHOTS),
)
"""The arguments of commands that search a directory, beside the directory."""


def _whole_number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a whole number, found {text!r}") from None


def pairs(flag: str, form: str, operands: Iterable[str]) -> dict[str, str]:
    """Return the operands of a flag, such as ``NAME=VALUE``, as a mapping."""
    parts = [text.partition("=") for text in operands]
    if not all(name and equals for name, equals, _ in parts):
        raise OptionError(f"{flag}: expected {form}")
    return {name: value for name, _, value in parts}


UNBOUNDED: Final = 1 << 20
"""A width of tables whose rows are never broken, so that users can copy what is in them."""


def print_table(
    columns: Sequence[str],
    rows: Sequence[Mapping[str, Any]],
    options: argparse.Namespace,
    width: int | None = None,
    whole: frozenset[str] = NAMES,
    value: Any = None,
) -> None:
    """Print rows as a table, or with a line for each value if the options select this or the table is too wide.

    Values of the columns ``whole`` are never shortened. With ``--json``, print the ``value`` that the rows are made of, by
    default the rows.
    """
    if getattr(options, "json", False):
        print_json(rows if value is None else value)
    elif options.vertical:
        say(render_vertical(columns, [list(map(row.get, columns)) for row in rows]))
    else:
        say(render_records(columns, rows, width=width, right=frozenset(SIZES.values()), whole=whole))


def print_json(value: Any) -> None:
    """Print the result of a function as lines of JSON: rows of tables, records of reports, items of lists; or one record."""
    if isinstance(value, pa.Table):
        value = value.to_pylist()
    elif hasattr(value, "records"):
        value = value.records()
    elif is_dataclass(value) and not isinstance(value, Iterable):
        value = [value]
    for row in value:
        say_json(json_text(row))


def print_report(report: Any, options: argparse.Namespace) -> None:
    """Print a report: its text, or with ``--json`` its records."""
    if options.json:
        print_json(report)
    else:
        say(str(report))


def print_batches(batches: Iterator[pa.RecordBatch], options: argparse.Namespace) -> None:
    """Print the first rows of batches, up to the limit."""
    first = next(batches)
    rows = chain(first.to_pylist(), chain.from_iterable(map(pa.RecordBatch.to_pylist, batches)))
    if options.json:
        print_json(islice(rows, options.limit))
        return
    print_table(first.schema.names, list(islice(rows, options.limit)), options)
    if next(rows, None) is not None:
        say(f"… only the first {options.limit} rows; --limit shows more")


def print_schema(schema: pa.Schema, options: argparse.Namespace) -> None:
    """Print columns with Spark's names for types."""
    rows = [{"column": field.name, "type": spark_ddl(field.type)} for field in schema]
    print_table(["column", "type"], rows, options, UNBOUNDED)


def with_sizes(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with its sizes in units and short names."""
    return {SIZES.get(name, name): size_text(value) if name in SIZES else value for name, value in row.items()}


def time_text(time: datetime | None) -> str | None:
    """Return a point in time for a table, to the second."""
    return f"{time:%Y-%m-%d %H:%M:%S}" if time else None


ENTRY_POINT_GROUP: Final = "state_processor.commands"


def installed_commands(built_in: Collection[str]) -> Iterator[Command]:
    """Yield the commands of installed packages. Their names are not those of built-in commands.

    A package that fails is named on standard error; other commands work without it.
    """
    for entry_point in entry_points(ENTRY_POINT_GROUP):
        try:
            command: Any = entry_point.load()
            problem = _problem(entry_point.name, command, built_in)
        except Exception as error:  # of another package
            problem = f"failed with {describe(error)}"
        if problem:
            place = f"{entry_point.name} ({entry_point.value})"
            complain(f"the installed entry point {place} {problem}; the command is not known")
        else:
            yield command


def _problem(name: str, command: object, built_in: Collection[str]) -> str:
    if not isinstance(command, Command):
        return f"is of type {type(command).__name__}, not a function with the decorator command of state_processor.command_line"
    if command.function is not None and not callable(command.function):
        return f"names {command.python[0]} for Python, which is not a function"
    if command.name != name:
        return f"has another name than its command, {command.name}"
    return "has the name of a command of this package" if name in built_in else ""


_READING: Final = tuple(option for option in READ_OPTIONS if option.operand is not None)
"""Options of reading state that have a flag."""


def add_flags(parser: argparse.ArgumentParser, kinds: Collection[Kind], *, without: Collection[str] = ()) -> None:
    """Add the flags of the options that apply to some kinds of reads.

    ``parser``: the parser of a command. ``kinds``: what the command reads. ``without``: options, as keyword arguments, that
    change nothing that the command shows.
    """
    of_reading = [o for o in _READING if o.on.intersection(kinds)]
    of_opening = [o for o in SNAPSHOT_OPTIONS if o.applies_to.intersection(kinds)]
    for title, options in (("options of reading state", of_reading), ("options of opening a snapshot", of_opening)):
        documented = [o for o in options if o.argument not in without]
        if documented:
            group = parser.add_argument_group(title)
            for option in documented:
                add_flag(group, option)


def add_flag(parser: argparse._ActionsContainer, option: Option, note: str = "") -> None:
    """Add the flag of an option; a note extends its help."""
    flag, operand = flag_name(option.argument), option.operand
    text = option.doc.replace("`", "") + note
    if not operand:
        parser.add_argument(flag, dest=option.argument, action="store_const", const=not option.default, help=text)
    elif option.is_repeated:
        name = operand.removesuffix("...")
        parser.add_argument(flag, dest=option.argument, metavar=name, action="append", help=f"{text} May be repeated.")
    else:
        parser.add_argument(flag, dest=option.argument, metavar=operand, help=text)


def flag_values(namespace: argparse.Namespace) -> dict[str, Any]:
    """Return the flags as keyword arguments."""
    values = ((o, getattr(namespace, o.argument, None)) for o in (*SNAPSHOT_OPTIONS, *_READING))
    return {o.argument: _pairs(o, v) if "=" in (o.operand or "") else v for o, v in values if v is not None}


def _pairs(option: Option, texts: list[str]) -> dict[str, Any]:
    pairs = [text.partition("=") for text in texts]
    for text, (name, _, value) in zip(texts, pairs, strict=True):
        if not name or not value:
            excerpt = "" if option.kind.is_secret else f" {text}"
            raise OptionError(f"{flag_name(option.argument)}{excerpt}: expected {option.operand}")
    if option.kind is FIELDS:
        return {name: value.split(",") for name, _, value in pairs}
    return {name: value for name, _, value in pairs}


def check_new(path: str) -> None:
    """Check that a file can be created; call this before reading its content."""
    if not Location.parse(path).is_local:
        raise WriteError(f"{path}: only local files are written; write a local file and copy it")
    if os.path.lexists(path):
        raise WriteError(f"{path} exists; name a new file")
    directory = os.path.dirname(path) or os.curdir
    if not os.path.isdir(directory):
        raise WriteError(f"{path} can't be created: {directory} is not a directory; create it first")


@contextmanager
def new_file(path: str) -> Iterator[Any]:
    """Create a file. It has a temporary name until the block ends; it is removed if the block fails."""
    check_new(path)
    local = Location.parse(path).path
    partial = os.path.join(os.path.dirname(local), f".state-processor-{uuid4().hex}.part")
    try:
        file = open(partial, "xb")  # noqa: SIM115 - closed below, before the file gets its name
    except OSError as problem:
        raise WriteError(f"{path} can't be created: {problem.strerror}; name a file in a writable directory") from None
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        _rename(partial, local)
    except FileExistsError:
        raise WriteError(f"{path} exists; name a new file") from None
    except OSError as problem:
        if isinstance(problem, BrokenPipeError):
            raise
        raise WriteError(f"{path} can't be written: {problem.strerror or problem}") from None
    finally:
        with suppress(FileNotFoundError):
            os.unlink(partial)


def write_text(path: str, text: str, *, replaced: bool) -> None:
    """Write a text into a file; an existing file is replaced when the text is complete, if ``replaced`` is true."""
    replaced = replaced and os.path.lexists(path)
    target = f"{path}.{uuid4().hex}.part" if replaced else path
    with new_file(target) as file:
        file.write(text.encode())
    if replaced:
        os.replace(target, path)


def _rename(partial: str, path: str) -> None:
    """Give a file its name; unlike ``rename``, never replace a file from another process."""
    try:
        os.link(partial, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        if os.path.lexists(path):
            raise FileExistsError from None
        os.rename(partial, path)


class UnclosedFile:
    """A file for writers that close files, or that need the position of a pipe."""

    closed = False

    def __init__(self, file: Any) -> None:
        self._file = file
        self._position = 0

    def write(self, data: Any) -> int:
        """Write bytes."""
        self._file.write(data)
        self._position += len(data)
        return len(data)

    def tell(self) -> int:
        """Return the number of written bytes."""
        return self._position

    def flush(self) -> None:
        """Flush buffered bytes."""
        self._file.flush()

    def close(self) -> None:
        """Leave the file open."""
        self.flush()
