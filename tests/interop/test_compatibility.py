"""The golden verdicts are still those of real Flink."""

from __future__ import annotations

import gzip
import json

import compatibility
import pytest


@pytest.mark.parametrize("version", compatibility.VERSIONS)
def test_verdicts(version: str) -> None:
    golden = json.loads(gzip.decompress((compatibility.GOLDEN / f"flink-{version}.json.gz").read_bytes()))
    assert [(v["written"], v["wanted"]) for v in golden["verdicts"]] == compatibility.pairs()
    answers = compatibility.ask(version, compatibility.pairs())
    assert answers["verdicts"] == [v["verdict"] for v in golden["verdicts"]]
    assert answers["snapshots"] == golden["snapshots"]
