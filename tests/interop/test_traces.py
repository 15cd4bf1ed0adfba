"""Traces of real Flink: ``explain`` names their cause."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import state_processor as sp
from state_processor.applications.explain.kinds import Certainty, Kind
from tests.interop import flink

pytestmark = pytest.mark.interop

PACKAGE = "traced"
CLASSES = {
    "Row": "public class Row { public %s n; public String s; }",
    "Base": "public class Base { public %s n; }",
    "Derived": "public class Derived extends Base { public String s; }",
}


def job(name: str, values: list[Any]) -> list[dict[str, Any]]:
    entries = [{"key": str(number), "value": {"n": value, "s": "x"}} for number, value in enumerate(values)]
    state = {"name": "total", "kind": "VALUE", "key_type": "STRING", "value_type": f"POJO<{PACKAGE}.{name}>", "ttl": False}
    return [{"uid": "orders", "key_type": "STRING", "states": [{**state, "entries": entries}]}]


@pytest.mark.parametrize("version", ["1.20.5", "2.3.0"])
def test_a_null_in_a_field_that_became_primitive(version: str, tmp_path: Path) -> None:
    """Also in a field that a superclass declares."""

    def restored(type_: str, requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
        texts = {name: f"package {PACKAGE};\n{text.replace('%s', type_)}" for name, text in CLASSES.items()}
        return flink.restore(version, requests, class_path=[flink.generated_classes(version, PACKAGE, texts)])

    jobs = [job(name, [1, None]) for name in ("Row", "Derived")]
    settings: dict[str, Any] = {"backend": "rocksdb", "parallelism": 1}
    filled = [
        flink.request(operators, filled=True, snapshots=["canonical"], snapshots_to=tmp_path, **settings) for operators in jobs
    ]
    answers = restored("Integer", filled)
    assert [answer.get("error") for answer in answers] == [None, None]
    snapshots = [Path(answer["snapshots"]["canonical"]) for answer in answers]
    starts = [flink.request(*pair, **settings) for pair in zip(jobs, snapshots, strict=True)]
    for snapshot, answer in zip(snapshots, restored("int", starts), strict=True):
        cause = sp.explain(snapshot, error=answer["trace"]).causes[0]
        assert (cause.kind, cause.state, cause.field, cause.certainty) == (Kind.FIELD_NULL, "total", "n", Certainty.CONFIRMED)
