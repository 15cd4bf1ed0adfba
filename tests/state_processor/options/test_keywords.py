"""Arguments that are iterated: a generator gives what a list gives, or is refused."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

import state_processor as sp
from state_processor import Types, serializers, testing
from state_processor.options.keywords import takes_options
from state_processor.read.rows import Rows
from state_processor.write.savepoint_writer import SavepointWriter
from tests.plugins import modules_of_plugins
from tests.state_processor.samples import ORDERS_PATH, WINDOWS_PATH
from tests.state_processor.written_checkpoints import take

Call = Callable[[Any, Path], Any]
_ITERATED: Final = re.compile(r"\b(Sequence|Iterable|Collection)\[|^Keys\b")


def erased(path: Path, **arguments: Any) -> Any:
    sp.erase(ORDERS_PATH, path / "erased", **{"remove": "keys", **arguments})
    return sp.arrow.read_state(path / "erased", "orders").read_all().sort_by("key").to_pylist()


def erased_in_fleet(path: Path, **arguments: Any) -> Any:
    given = {"directories": [ORDERS_PATH, WINDOWS_PATH], "text": "amelia", "remove": "keys", **arguments}
    rows = [job.as_row() for job in sp.erase_in_fleet(target=path / "erased", **given).jobs]
    return str(rows)


def past(path: Path, **arguments: Any) -> Any:
    """The totals of two checkpoints, of 1970 and 2023."""
    for number in (2, 3):
        take(path, number, {"amelia": number})
    os.utime(path / "chk-2" / "_metadata", (1, 1))
    times = {"keys": ["amelia", "anders"], "at": ["1970-01-02T00:00:00Z", "2026-05-04T12:00:00Z"], **arguments}
    keys = times.pop("keys")
    return sp.history_of(path, "orders", "total", keys, **times).drop_columns(["snapshot"]).to_pylist()


def twice(rows: Any) -> Any:
    return [rows.read_all().sort_by("key").to_pylist() for _ in range(2)]


def elements(values: Any, path: Path) -> None:
    SavepointWriter.new().with_list_state("o", "l", [{"value": v} for v in (1, 2)], Types.LONG()).write(path / "list")
    testing.assert_state(path / "list", "o", "l", values)


OF_OPTIONS: Final[dict[str, tuple[list[Any], Call]]] = {
    "keys": (["amelia", "anders"], lambda g, _: twice(sp.arrow.read_state(ORDERS_PATH, "orders", "total", keys=g))),
    "columns": (["key", "value"], lambda g, _: twice(sp.arrow.read_state(ORDERS_PATH, "orders", "total", columns=g))),
    "uids": (["orders"], lambda g, _: sp.duckdb.connect(ORDERS_PATH, uids=g).sql("SELECT count(*) FROM orders").fetchall()),
    "allow_paths": (["/nowhere"], lambda g, _: sp.arrow.operators(ORDERS_PATH, allow_paths=g)),
    "serializers": (["json"], lambda g, _: sp.duckdb.connect(ORDERS_PATH, serializers=g).sql("FROM operators").fetchall()),
}
"""Options of several functions: values, and a call that needs them several times."""
NAMED: Final[dict[str, tuple[list[Any], Call]]] = {
    "find.paths": ([ORDERS_PATH, WINDOWS_PATH], lambda g, _: sp.find(g, text=["amelia", "user-1"]).table),
    "find.text": (["amelia", "user-1"], lambda g, _: sp.find([ORDERS_PATH, WINDOWS_PATH], text=g).table),
    "find.number": ([5, 109], lambda g, _: sp.find([ORDERS_PATH, WINDOWS_PATH], number=g).table),
    "find.key": (["amelia", "anders"], lambda g, _: sp.find(ORDERS_PATH, key=g).table),
    "erase.key": (["amelia", "anders"], lambda g, path: erased(path, key=g)),
    "erase.remove": (["keys", "entries"], lambda g, path: erased(path, text=["amelia", "anders"], remove=g)),
    "erase.text": (["amelia", "anders"], lambda g, path: erased(path, text=g)),
    "find_in_fleet.directories": ([ORDERS_PATH, WINDOWS_PATH], lambda g, _: sp.find_in_fleet(g, text="e").table),
    "find_in_fleet.text": (["amelia", "user-1"], lambda g, _: sp.find_in_fleet([ORDERS_PATH, WINDOWS_PATH], text=g).table),
    "find_in_fleet.number": ([5, 109], lambda g, _: sp.find_in_fleet([ORDERS_PATH, WINDOWS_PATH], number=g).table),
    "find_in_fleet.key": (["amelia", "anders"], lambda g, _: sp.find_in_fleet(ORDERS_PATH, key=g).table),
    "erase_in_fleet.directories": ([ORDERS_PATH, WINDOWS_PATH], lambda g, path: erased_in_fleet(path, directories=g)),
    "erase_in_fleet.key": (["amelia", "anders"], lambda g, path: erased_in_fleet(path, text=None, key=g)),
    "erase_in_fleet.remove": (["keys", "entries"], lambda g, path: erased_in_fleet(path, remove=g)),
    "erase_in_fleet.text": (["amelia", "user-1"], lambda g, path: erased_in_fleet(path, text=g)),
    "check_job.unchanged": (["orders"], lambda g, _: str(sp.check_job(ORDERS_PATH, sp.signature(ORDERS_PATH), unchanged=g))),
    "history_of.keys": (["amelia", "anders"], lambda g, path: past(path, keys=g)),
    "history_of.at": (["1970-01-02T00:00:00Z", "2026-05-04T12:00:00Z"], lambda g, path: past(path, at=g)),
    "files.also": ([WINDOWS_PATH], lambda g, _: len(sp.files(ORDERS_PATH, also=g))),
    "orphans.also": ([WINDOWS_PATH], lambda g, path: str(sp.orphans(path, also=g))),
    "retain.also": ([WINDOWS_PATH], lambda g, path: str(sp.retain(path, keep=1, also=g))),
    "Types.TUPLE.field_types": ([Types.LONG(), Types.STRING()], lambda g, _: str(Types.TUPLE(g))),
    "Types.ROW.field_types": ([Types.LONG(), Types.STRING()], lambda g, _: str(Types.ROW(g))),
    "Types.ROW_NAMED.field_names": (["a", "b"], lambda g, _: str(Types.ROW_NAMED(g, [Types.LONG(), Types.INT()]))),
    "Types.ROW_NAMED.field_types": ([Types.LONG(), Types.INT()], lambda g, _: str(Types.ROW_NAMED(["a", "b"], g))),
    "Types.ENUM.names": (["A", "B"], lambda g, _: Types.ENUM("acme.E", g).snapshot().to_bytes()),
    "arrow.Rows.notes": (["a", "b"], lambda g, _: Rows(pa.schema([]), lambda: iter(()), g).notes),
    "testing.assert_state.expected": ([2, 1], elements),
}
"""Arguments of one function."""
ELSEWHERE: Final = frozenset(
    {
        "register.allow_serializers",  # a set of names
        "plan_from_sql.jars",  # needs a JVM
        "dispose.also",  # as in retain
        "SavepointWriter.migrate_query.drop",
        "SavepointWriter.check_query_migration.drop",
        "serializers.CompositeTypeSerializerSnapshot.nested",  # extensions
        "serializers.register_kryo_class.fields",
        "serializers.register_primitive_fields.fields",
        "connectors.changed_content.parts",
        "connectors.row_of.parts",
        *(name for module in modules_of_plugins("exceptions") for name in getattr(module, "ITERABLES", ())),
    }
)


@pytest.mark.parametrize(("values", "call"), [*OF_OPTIONS.values(), *NAMED.values()], ids=[*OF_OPTIONS, *NAMED])
def test_a_generator_gives_what_a_list_gives(values: list[Any], call: Call, tmp_path: Path) -> None:
    def outcome(argument: Any, name: str) -> Any:
        (tmp_path / name).mkdir()
        found = call(argument, tmp_path / name)
        return found.replace(name, "") if isinstance(found, str) else found

    assert outcome((value for value in values), "generated") == outcome(list(values), "listed")


def test_generators_of_rows_are_refused() -> None:
    writer = SavepointWriter.from_existing(ORDERS_PATH)
    with pytest.raises(sp.OptionError, match=r"expected rows as a table of Arrow.*found a generator"):
        writer.update_keyed_state("orders", "total", (row for row in [{"key": "amelia", "value": 1}]))


def public_parameters() -> Iterator[tuple[str, inspect.Parameter, bool]]:
    """Yield the parameters of public functions, and whether they are options; without methods of extensions."""
    public = re.findall(r"(\w+) as \1\b", Path("state_processor/__init__.pyi").read_text())
    holders = [(name, getattr(sp, name)) for name in public]
    holders += [(f"serializers.{n}", getattr(serializers, n)) for n in dir(serializers) if n[0] != "_"]
    holders += [(f"testing.{n}", getattr(testing, n)) for n in dir(testing) if n[0] != "_"]
    for name, holder in holders:
        functions = {name: holder}
        if inspect.isclass(holder) and not name.startswith("serializers.") and holder.__module__.startswith("state_processor"):
            functions |= {f"{name}.{n}": f for n, f in inspect.getmembers(holder, callable) if n[0] != "_"}
        if inspect.ismodule(holder) and name in ("arrow", "duckdb", "polars", "pyflink", "connectors"):
            functions = {f"{name}.{n}": getattr(holder, n) for n in holder.__all__ if name != "connectors" or n.islower()}
        for path, function in functions.items():
            if inspect.ismodule(function) or "Error" in path:
                continue
            is_taking = getattr(function, "__code__", None) is takes_options_code()
            try:
                parameters = inspect.signature(function).parameters.values()
            except (TypeError, ValueError):
                continue
            yield from ((path, p, is_taking and p.kind is p.KEYWORD_ONLY and p.name in OF_OPTIONS) for p in parameters)


def takes_options_code() -> Any:
    return takes_options(import_module("state_processor.arrow").operators.__wrapped__).__code__


@pytest.mark.spark
def test_all_arguments_that_are_iterated_are_tried() -> None:
    iterated = {
        f"{path}.{parameter.name}"
        for path, parameter, is_option in public_parameters()
        if not is_option and parameter.name != "fields" and _ITERATED.search(str(parameter.annotation))
    }
    assert sorted(iterated - {*NAMED, *ELSEWHERE}) == []
