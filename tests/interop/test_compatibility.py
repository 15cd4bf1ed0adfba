"""The golden verdicts equal real Flink's verdicts: each tenth, or all with ``STATE_PROCESSOR_EVERY_CASE=1``."""

from __future__ import annotations

import gzip
import json

import pytest

from tests.interop import compatibility
from tests.interop.selection import EVERY_CASE


@pytest.mark.parametrize("version", compatibility.VERSIONS)
def test_verdicts(version: str) -> None:
    golden = json.loads(gzip.decompress((compatibility.GOLDEN / f"flink-{version}.json.gz").read_bytes()))
    assert [(v["written"], v["wanted"]) for v in golden["verdicts"]] == compatibility.pairs()
    chosen = golden["verdicts"] if EVERY_CASE else golden["verdicts"][::10]
    answers = compatibility.ask(version, [(v["written"], v["wanted"]) for v in chosen])
    assert answers["verdicts"] == [v["verdict"] for v in chosen]
    assert answers["snapshots"] == {name: golden["snapshots"][name] for name in answers["snapshots"]}
    assert answers["snapshots"].keys() == golden["snapshots"].keys() or not EVERY_CASE
