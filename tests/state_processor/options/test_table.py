from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import pytest

import state_processor as sp
from state_processor import arrow, list_snapshots, sync
from state_processor.applications.changes.changes_source import FlinkSavepointChangesDataSource
from state_processor.applications.changes.spark_difference import diff
from state_processor.backends.read.read_options import ReadOptions, of_options
from state_processor.cli import command_parser
from state_processor.options.access import SNAPSHOT_OPTIONS, SnapshotAccess
from state_processor.options.data_sources import READ_OPTIONS
from state_processor.options.groups import (
    AccessOptions,
    ChangedSavepointOptions,
    CountOptions,
    CountSnapshotOptions,
    DiffOptions,
    DiffSnapshotOptions,
    DirectoryOptions,
    EntryOptions,
    KeyedStateOptions,
    LookupOptions,
    LookupSnapshotOptions,
    NewSavepointOptions,
    OpeningOptions,
    OperatorStateOptions,
    SnapshotOptions,
    StateSnapshotOptions,
    TimerOptions,
    TimerSnapshotOptions,
)
from state_processor.options.keywords import KEYWORD_OPTIONS, TEXT_OPTIONS
from state_processor.options.option import Option
from state_processor.read.snapshot_reader import SnapshotReader
from state_processor.reader import SavepointReader
from state_processor.spark.datasource import FlinkSavepointDataSource, FlinkSavepointMetadataDataSource
from state_processor.writer import SavepointWriter

ALL = [*{id(o): o for o in chain(KEYWORD_OPTIONS.values(), *TEXT_OPTIONS.values())}.values()]

SURFACES: list[tuple[Callable[..., Any], Any]] = [
    (SavepointReader.read, AccessOptions),
    (SavepointReader.read_keyed_state, KeyedStateOptions),
    (SavepointReader.read_window_state, KeyedStateOptions),
    (SavepointReader.read_timers, TimerOptions),
    (SavepointReader.read_list_state, OperatorStateOptions),
    (SavepointReader.read_union_state, OperatorStateOptions),
    (SavepointReader.read_broadcast_state, OperatorStateOptions),
    (arrow.SavepointReader.read, SnapshotOptions),
    (arrow.SavepointReader.read_keyed_state, KeyedStateOptions),
    (arrow.SavepointReader.read_window_state, KeyedStateOptions),
    (arrow.SavepointReader.read_timers, TimerOptions),
    (arrow.SavepointReader.read_list_state, OperatorStateOptions),
    (arrow.SavepointReader.read_union_state, OperatorStateOptions),
    (arrow.SavepointReader.read_broadcast_state, OperatorStateOptions),
    (sp.open, SnapshotOptions),
    (SavepointWriter.new, NewSavepointOptions),
    (SavepointWriter.from_existing, ChangedSavepointOptions),
    (arrow.read_state, StateSnapshotOptions),
    (SavepointReader.count, KeyedStateOptions),
    (SavepointReader.lookup, LookupOptions),
    (diff, DiffSnapshotOptions),
    (arrow.size_report, SnapshotOptions),
    (arrow.diff, DiffSnapshotOptions),
    (arrow.diff_summary, CountSnapshotOptions),
    (arrow.lookup, LookupSnapshotOptions),
    (sp.history_of, LookupSnapshotOptions),
    (arrow.read_timers, TimerSnapshotOptions),
    (arrow.read_raw_state, EntryOptions),
    (arrow.read_channel_state, OpeningOptions),
    (arrow.read_channel_records, OpeningOptions),
    (arrow.read_source_splits, OpeningOptions),
    (arrow.read_sink_state, OpeningOptions),
    (arrow.operators, OpeningOptions),
    (arrow.snapshots, DirectoryOptions),
    (list_snapshots, DirectoryOptions),
    (sync, DiffSnapshotOptions),  # of a module of its own
    (arrow.states, OpeningOptions),
    (arrow.handles, OpeningOptions),
]


def of_group(group: Any) -> set[str]:
    return set(group.__annotations__)


def test_every_option_of_reading_and_opening_is_a_keyword_argument() -> None:
    assert of_group(KeyedStateOptions) == {o.argument for o in READ_OPTIONS} | {"infer_kryo"}
    assert of_group(SnapshotOptions) == {o.argument for o in SNAPSHOT_OPTIONS}
    for group in (TimerOptions, OperatorStateOptions, LookupOptions, DiffOptions, CountOptions):
        assert of_group(group) < of_group(KeyedStateOptions)
        assert all(group.__annotations__[n] == KeyedStateOptions.__annotations__[n] for n in of_group(group))
    assert of_group(StateSnapshotOptions) | {"kind", "scratch"} == set(KEYWORD_OPTIONS)


def test_defaults_are_normal_forms() -> None:
    for options, holder in ((READ_OPTIONS, ReadOptions), (SNAPSHOT_OPTIONS, SnapshotAccess)):
        assert of_options(holder, {o.argument: o.default for o in options}) == holder()


@pytest.mark.parametrize(("function", "group"), SURFACES, ids=lambda value: getattr(value, "__qualname__", ""))
def test_signatures_and_docstrings(function: Callable[..., Any], group: Any) -> None:
    written = inspect.signature(inspect.unwrap(function)).parameters["options"].annotation
    assert written == f"Unpack[{group.__name__}]"
    parameters = inspect.signature(function).parameters
    documented = (function.__doc__ or "").split("Other Parameters")[1]
    for name in of_group(group):
        option, parameter = KEYWORD_OPTIONS[name], parameters[name]
        assert parameter.kind is inspect.Parameter.KEYWORD_ONLY
        assert parameter.default == (None if option.default in ((), {}) else option.default)
        assert f"\n{name} : {option.kind.expected}" in documented


OWN = {("expire", "as_of"), ("touch", "as_of"), ("read_raw_state", "kind"), ("latest", "kind")}
"""Arguments with the name of an option, which they are not: times of writes, kinds of raw state and of snapshots."""


def test_an_option_has_one_default_everywhere() -> None:
    defaults = {name: option.default for name, option in KEYWORD_OPTIONS.items()}
    taken = dict.fromkeys(defaults, 0)
    for where, name, default in chain(of_signatures(), of_commands(), of_data_sources()):
        if name in defaults and (where, name) not in OWN:
            assert default in (defaults[name], None if defaults[name] in ((), {}) else defaults[name]), f"{where}: {name}"
            taken[name] += 1
    assert min(taken.values()) >= 1
    assert taken["nanos"] > 10


def of_signatures() -> Iterator[tuple[str, str, Any]]:
    for function in public_functions():
        for name, parameter in inspect.signature(function).parameters.items():
            if parameter.default is not parameter.empty:
                yield function.__name__, name, parameter.default


def of_commands() -> Iterator[tuple[str, str, Any]]:
    """Flags with a default of their own; a flag without one leaves the option out."""
    (commands,) = (a for a in command_parser()._actions if isinstance(a, argparse._SubParsersAction))
    for command, parser in commands.choices.items():
        yield from ((command, action.dest, action.default) for action in parser._actions if action.default is not None)


def of_data_sources() -> Iterator[tuple[str, str, Any]]:
    for name, options in TEXT_OPTIONS.items():
        yield from ((name, option.argument, option.default) for option in options if option.argument in KEYWORD_OPTIONS)


def public_functions() -> Iterator[Callable[..., Any]]:
    """Functions of the public modules, and methods of the public classes."""
    for module in (sp, arrow, sp.duckdb, sp.polars):
        for name in dir(module):
            member = getattr(module, name)
            if inspect.isclass(member):
                yield from (function for _, function in inspect.getmembers(member, inspect.isroutine) if is_ours(function))
            elif inspect.isroutine(member) and is_ours(member):
                yield member


def is_ours(function: Any) -> bool:
    return str(getattr(function, "__module__", "")).startswith("state_processor.")


def test_no_other_function_takes_options() -> None:
    listed = {function.__qualname__ for function, _ in SURFACES}
    classes = (SnapshotReader, SavepointReader, arrow.SavepointReader, SavepointWriter)
    takers = {*option_takers(arrow), *chain.from_iterable(map(option_takers, classes))}
    assert takers == listed - {"history_of", "list_snapshots", "open", "sync"}


def option_takers(where: Any) -> Iterator[str]:
    for name in {*vars(where), *getattr(where, "__all__", ())}:
        member = getattr(where, name)
        if inspect.isroutine(member) and member.__module__.startswith("state_processor."):
            parameters = inspect.signature(inspect.unwrap(member)).parameters
            if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
                yield member.__qualname__


@pytest.mark.parametrize(("function", "group"), SURFACES, ids=lambda value: getattr(value, "__qualname__", ""))
def test_unknown_keyword_arguments(function: Callable[..., Any], group: Any) -> None:
    near = sorted(of_group(group))[0]
    with pytest.raises(TypeError, match=rf"{function.__name__}\(\) got an unexpected keyword .*did you mean '{near}'\?"):
        function(**{near[:-1] + "z": 1})
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'colour'; there are .*(metadata|storage_options)"):
        function(colour=1)


@pytest.mark.parametrize("option", ALL, ids=lambda o: o.argument)
def test_entries(option: Option) -> None:
    assert re.fullmatch(r"[a-z]+(_[a-z]+)*", option.argument)
    assert option.doc.endswith(".")
    if option.default is not None:
        assert option.kind.of_text(option.name, option.kind.encode(option.default)) == option.default


def test_docstrings_of_data_sources() -> None:
    sources = ((FlinkSavepointDataSource, 2), (FlinkSavepointMetadataDataSource, 1), (FlinkSavepointChangesDataSource, 1))
    for source, surfaces in sources:
        for surface in [s for s in TEXT_OPTIONS if s.endswith(f" {source.name()}")]:
            surfaces -= 1
            assert all(f"\n{o.name} : {o.kind.expected}" in (source.__doc__ or "") for o in TEXT_OPTIONS[surface])
        assert not surfaces
