"""Every option that acts on a kind of reads changes a result: a proof for each cell of the table of options.

A cell without a proof fails, and so does a proof of a cell that does not act any more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

import state_processor as sp
from state_processor.backends.read.read_options import ROWS, Kind
from state_processor.options.keywords import EFFECTIVE_OPTIONS, PUSHDOWN, SNAPSHOT_OPTIONS
from state_processor.options.option import Option
from state_processor.serializers.registry import Registrations, register, registrations
from tests import hidden_subclasses as hidden
from tests.state_processor.options import effect_samples as samples
from tests.state_processor.options.effect_samples import PYTHON, rows_of
from tests.state_processor.options.option_samples import SAMPLES
from tests.state_processor.samples import ORDERS_PATH

CELLS: Final = [
    (option, kind)
    for option in EFFECTIVE_OPTIONS
    for kind in Kind
    if kind in option.on and (option not in SNAPSHOT_OPTIONS or option.argument == "time_zone") and option is not PUSHDOWN
]
"""All but options of opening a snapshot, which :mod:`test_access` follows, and of filters, which :mod:`test_datasource` does."""

ELSEWHERE: Final = {
    ("time_zone", Kind.REPORTS): "a report has the keys of a report of sizes",
    ("python_type", Kind.WINDOW): "windows are read by the code of keyed state",
    ("python_types", Kind.WINDOW): "windows are read by the code of keyed state",
    ("unpickle", Kind.WINDOW): "windows are read by the code of keyed state",
    ("unpickle", Kind.BROADCAST): "broadcast state has the coders of map state",
}
"""Cells that another test proves, or that have the same code as another cell."""


@dataclass(frozen=True)
class Savepoints:
    new: Path
    old: Path
    hidden: Path
    undescribed: Path
    raw: Path


@pytest.fixture(scope="module")
def savepoints(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Savepoints]:
    directory = tmp_path_factory.mktemp("effects")
    with registrations():
        register(lambda _: Registrations())  # tests describe the classes
        new, old = samples.savepoint(spark, directory / "new"), samples.empty(spark, directory / "old")
        shapes, others = hidden.savepoint(directory / "hidden"), samples.undescribed(directory / "undescribed")
        yield Savepoints(new, old, shapes, others, samples.raw(directory / "raw"))


def outcome(read: Any, options: dict[str, Any]) -> Any:
    """The rows that a read gives, or its error."""
    try:
        return read(**options)
    except (sp.OptionError, sp.NotFoundError):
        raise
    except sp.StateProcessorError as error:
        return str(error)


def proof(option: Option, kind: Kind, given: Savepoints) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """A read, and two sets of options that differ in the option."""
    name = option.argument
    if name in ("python_type", "python_types", "unpickle"):
        return of_python(name, kind)
    sample = SAMPLES[name]
    before = sample.needs if sample.before is None else sample.before
    after = {name: sample.by_kind.get(kind, sample.value), **sample.needs}
    if kind is Kind.RAW:
        return lambda **o: rows_of(sp.arrow.read_state(given.raw, "raw", kind="RAW_KEYED", **o)), before, after
    if kind is Kind.SIZES:
        return lambda **o: sp.arrow.size_report(given.new, "timers-days", "key", **o).to_pylist(), before, after
    if sample.content == "shapes" and kind in HIDDEN:
        return lambda **o: HIDDEN[kind](given, **o), before, after
    return lambda **o: samples.READS[kind](given.new, given.old, sample.content, **o), before, after


HIDDEN: Final[dict[Kind, Any]] = {
    Kind.KEYED: lambda given, **o: rows_of(sp.arrow.read_state(given.hidden, "shapes", "shapes", **o)),
    Kind.WHOLE: lambda given, **o: rows_of(sp.arrow.read_state(given.hidden, "shapes", **o)),
    Kind.LOOKUP: lambda given, **o: str(sp.arrow.lookup(given.hidden, "shapes", 1, "shapes", **o)),
    Kind.WINDOW: lambda given, **o: rows_of(sp.arrow.read_state(given.undescribed, "windows", "shapes", **o)),
    Kind.LIST: lambda given, **o: rows_of(sp.arrow.read_state(given.undescribed, "operator", "list-shapes", **o)),
    Kind.UNION: lambda given, **o: rows_of(sp.arrow.read_state(given.undescribed, "operator", "union-shapes", **o)),
    Kind.DIFF: lambda given, **o: rows_of(sp.arrow.diff(given.new, given.hidden, "shapes", "shapes", **o)),
    Kind.COUNTS: lambda given, **o: sp.arrow.diff_summary(given.new, given.hidden, "shapes", **o).to_pylist(),
}
"""Reads of values of a subclass that nothing describes."""


def of_python(name: str, kind: Kind) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    def read(**options: Any) -> Any:
        if kind is Kind.LOOKUP:
            key = rows_of(sp.arrow.read_state(PYTHON, "py-keyed", state))[0]["key"]
            return str(sp.arrow.lookup(PYTHON, "py-keyed", key, state, **options))
        if kind is Kind.WHOLE:
            return rows_of(sp.arrow.read_state(PYTHON, "py-keyed", **options))
        if kind is Kind.DIFF:
            return rows_of(sp.arrow.diff(ORDERS_PATH, PYTHON, "py-keyed", state, **options))
        if kind is Kind.COUNTS:
            return sp.arrow.diff_summary(ORDERS_PATH, PYTHON, "py-keyed", **options).to_pylist()
        uid = "py-broadcast" if kind is Kind.BROADCAST else "py-keyed"
        return rows_of(sp.arrow.read_state(PYTHON, uid, state, **options))

    state = "rules" if kind is Kind.BROADCAST else "value-pickled" if name == "unpickle" else "value-long"
    type_ = "MAP<STRING,LONG>" if kind is Kind.BROADCAST else sp.Types.PICKLED_BYTE_ARRAY() if name == "unpickle" else "LONG"
    declared = {"python_type": type_} if name == "python_type" else {"python_types": {state: type_}}
    return read, declared if name == "unpickle" else {}, {**declared, "unpickle": True} if name == "unpickle" else declared


@pytest.mark.parametrize(("option", "kind"), CELLS, ids=lambda v: getattr(v, "argument", getattr(v, "name", "")))
def test_an_option_that_acts_changes_a_result(option: Option, kind: Kind, savepoints: Savepoints) -> None:
    if (option.argument, kind) in ELSEWHERE:
        return
    read, before, after = proof(option, kind, savepoints)
    assert outcome(read, before) != outcome(read, after)


def test_every_kind_of_rows_is_read() -> None:
    assert samples.READS.keys() | {Kind.RAW} >= ROWS
