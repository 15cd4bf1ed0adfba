"""What the repository's own fixtures prove: a case for every serializer, kind of state, backend and format that is read."""

from __future__ import annotations

import ast
import gzip
import json
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.backends.read.stored_operator import operator_states
from state_processor.serializers import registry
from tests import corpus
from tests.archives import unpacked
from tests.plugins import modules_of_plugins
from tests.serializers.harness import snapshot_versions

FLINK = "org.apache.flink."
CORE = f"{FLINK}api.common.typeutils."
SCALA = f"{FLINK}api.scala.typeutils."
SCALA_2 = f"{FLINK}table.api.typeutils."
TABLE = f"{FLINK}table.runtime.typeutils."
CEP = f"{FLINK}cep.nfa."
CONFIG = "its format ended with Flink 1.7, and no package has one as old"
NO_PACKAGE = "its jar is in no package of the index"
BLINK = "the name in Flink 1.9 and 1.10 of a class that has a case under its name of today"
SCALA_TYPES = "only the Scala compiler makes such serializers; test_scala has their bytes"
WITHOUT_A_CASE = {
    f"{CORE}ParameterlessTypeSerializerConfig": CONFIG,
    f"{CORE}base.CollectionSerializerConfigSnapshot": CONFIG,
    f"{CORE}base.GenericArraySerializerConfigSnapshot": CONFIG,
    f"{CORE}base.MapSerializerConfigSnapshot": CONFIG,
    f"{CORE}SingleThreadAccessCheckingTypeSerializer$": "a class of Flink's own tests",
    f"{FLINK}api.java.typeutils.runtime.EitherSerializerSnapshot": "the old name of JavaEitherSerializerSnapshot",
    f"{FLINK}api.java.typeutils.runtime.WritableSerializer$": NO_PACKAGE,
    f"{SCALA}Nothing": SCALA_TYPES,
    f"{SCALA}ScalaEnum": SCALA_TYPES,
    f"{SCALA}ScalaTry": SCALA_TYPES,
    f"{SCALA}Traversable": SCALA_TYPES,
    f"{SCALA}Tuple2CaseClass": SCALA_TYPES,
    SCALA_2: SCALA_TYPES,
    f"{CEP}NFA$Migrated": "written by a Flink that restored state of 1.4 or older",
    f"{CEP}SharedBuffer$": "written by a Flink that restored state of 1.4 or older",
    f"{CEP}sharedbuffer.SharedBufferNode$": "of Flink 1.8 to 1.12; SharedBufferNodeSerializerSnapshotV2 has a case",
    f"{FLINK}formats.avro.": NO_PACKAGE,
    f"{FLINK}table.runtime.sequencedmultisetstate.linked.RowDataKey": "made of code that the planner generates",
    f"{TABLE}Base": BLINK,
    f"{TABLE}BinaryGeneric": BLINK,
    f"{TABLE}BinaryRowSerializer": BLINK,
    f"{TABLE}BinaryString": BLINK,
    f"{TABLE}DecimalSerializer": BLINK,
    f"{TABLE}SqlTimestamp": BLINK,
    f"{TABLE}serializers.python.Base": BLINK,
    f"{TABLE}serializers.python.DecimalSerializer": BLINK,
    **{name: reason for module in modules_of_plugins("exceptions") for name, reason in module.WITHOUT_A_CASE.items()},
}
"""Snapshot classes that are read and have no case, by their names, or the beginnings of them: the reason."""


def reason_of(name: str) -> str | None:
    return next((reason for start, reason in WITHOUT_A_CASE.items() if name.startswith(start)), None)


@cache
def bytes_of_fixtures() -> bytes:
    """All bytes from Flink in the fixtures; names of snapshot classes are plain text in them."""
    parts = [p.read_bytes() for p in unpacked("serializers").rglob("serializer-snapshot")]
    for case in corpus.own_cases():
        parts += [p.read_bytes() for p in case.directory.rglob("*") if p.is_file() and p.suffix != ".json"]
    for file in (corpus.FIXTURES / "compatibility").glob("*.json.gz"):
        snapshots = json.loads(gzip.decompress(file.read_bytes()))["snapshots"]
        parts += [bytes.fromhex(snapshot) for snapshot in snapshots.values()]
    return b"\0".join(parts)


def test_every_serializer_has_a_case() -> None:
    for family in registry._FAMILIES:
        import_module(f"state_processor.serializers.{family}")
    snapshot_versions()
    names = {n for n in registry._FLINK if n.startswith("org.apache.flink.")}
    written = bytes_of_fixtures()
    without = {n for n in names if n.encode() not in written}
    assert sorted(n for n in without if reason_of(n) is None) == []
    assert sorted(s for s in WITHOUT_A_CASE if not any(n.startswith(s) for n in without)) == []


def test_every_kind_of_state_has_a_case_in_every_backend_and_format() -> None:
    found = {
        (case.facts["backend"], case.facts["format"], state["kind"])
        for case in corpus.own_cases()
        for _, state in corpus.states_of(case)
    }
    formats = [(b, f) for b in ("hashmap", "rocksdb", "forst") for f in ("canonical", "native", "checkpoint")]
    formats.remove(("forst", "canonical"))  # Flink refuses to write it
    keyed = ("VALUE", "LIST", "MAP", "REDUCING", "AGGREGATING", "EVENT_TIMER", "PROCESSING_TIMER")
    of_operators = ("OPERATOR_LIST", "UNION_LIST", "BROADCAST")  # which no backend of keyed state writes
    wanted = {(*f, kind) for f in formats for kind in keyed}
    wanted |= {(b, f, kind) for b, f in formats if b != "forst" for kind in of_operators}
    assert sorted(wanted - found) == []


def test_every_way_to_take_a_snapshot_has_a_case() -> None:
    words = {w for case in corpus.own_cases() for w in case.directory.name.split("-")}
    ways = "inline files full compressed timers changelog materialized filemerging unaligned claim before p1 maxp512 maxp32768"
    assert set(ways.split()) - words == set()
    names = {case.directory.name for case in corpus.own_cases()}
    cases = "keyed-all operator-state windows sql- cep evolution-v1 evolution-v2 evolution-v3 rescaled empty-state unicode-uid"
    cases += " no-uid big-list finished-tasks in-flight pyflink"
    assert [c for c in cases.split() if not any(name.startswith(c) for name in names)] == []


def test_every_backend_is_told_apart() -> None:
    found = set()
    for case in corpus.own_cases():
        if "snapshot_dir" in case.facts:
            snapshot = open_snapshot(case.snapshot)
            found |= {s.backend for o in snapshot.metadata.operators for s in operator_states(snapshot, o).values()}
    assert {"canonical", "heap", "rocksdb", "forst", "changelog", "operator"} <= found


def marks(file: Path) -> Iterator[tuple[str, str]]:
    """Tests of a module that need the external corpus, and the tests that replace them without it."""
    text = file.read_text("utf-8")
    for function in ast.walk(ast.parse(text)) if "pytest.mark.corpus" in text else ():
        for decorator in function.decorator_list if isinstance(function, ast.FunctionDef) else ():
            if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.corpus":
                yield function.name, str(ast.literal_eval(decorator.keywords[0].value))


MARKS = [mark for file in sorted(Path(__file__).parent.rglob("test_*.py")) for mark in marks(file)]


@pytest.mark.parametrize(("test", "instead"), MARKS, ids=str)
def test_what_stands_for_tests_of_the_corpus_is_there(test: str, instead: str) -> None:
    file, _, name = instead.partition("::")
    source = ast.parse((corpus.ROOT / file).read_text("utf-8"))
    functions = [node for node in source.body if isinstance(node, ast.FunctionDef)]
    for each in source.body:
        if isinstance(each, ast.ClassDef):
            functions += [node for node in each.body if isinstance(node, ast.FunctionDef)]
    assert name.rpartition("::")[2] in {function.name for function in functions}
    assert name != test
