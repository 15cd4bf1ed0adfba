"""Content of splits of Flink CDC: bytes that it does not determine, and content that is refused."""

from __future__ import annotations

from typing import Any

import pytest

from state_processor import connectors
from state_processor.backends.connectors.choices import KeptDict
from state_processor.errors import InvalidRowError, OptionError

UNKNOWN_CLASS = (  # java.util.Currency
    "aced0005757200135b4c6a6176612e6c616e672e4f626a6563743b90ce589f1073296c020000787000000001737200126a6176612e75"
    "74696c2e43757272656e6379fdcd934a5911a91f0200014c000c63757272656e6379436f64657400124c6a6176612f6c616e672f5374"
    "72696e673b7870740003455552"
)
SPLIT = {
    "kind": "snapshot",
    "tableId": {"catalog": "shop", "schema": None, "table": "orders"},
    "splitId": "shop.orders:0",
    "splitKeyType": "ROW<`id` INT>",
    "splitStart": None,
    "splitEnd": [{"class": "java.lang.Integer", "value": 7}],
    "highWatermark": {"file": "mysql-bin.000003", "pos": "154"},
    "tableSchemas": [],
}


def test_bytes_that_content_does_not_determine_are_kept() -> None:
    written = connectors.encode("MySqlSplitSerializer", 4, SPLIT)
    spaced = written.replace(b'{"file":', b'{"file" :')[:-4] + written[-4:]
    at = spaced.index(b'{"file" :') - 4
    spaced = spaced[:at] + (int.from_bytes(spaced[at : at + 4], "big") + 1).to_bytes(4, "big") + spaced[at + 4 :]
    content = connectors.decode("MySqlSplitSerializer", 4, spaced)
    assert content == SPLIT
    assert isinstance(content["highWatermark"], KeptDict)
    assert connectors.encode("MySqlSplitSerializer", 4, content) == spaced
    content["highWatermark"]["pos"] = "155"
    assert connectors.encode("MySqlSplitSerializer", 4, content) == written.replace(b'"154"', b'"155"')


def test_a_boundary_of_an_unknown_class_is_kept() -> None:
    written = connectors.encode("MySqlSplitSerializer", 4, SPLIT | {"splitEnd": None})
    null, other = b"\0\x0aaced000570", UNKNOWN_CLASS.encode()
    at = written.rindex(null)
    data = written[:at] + len(other).to_bytes(2, "big") + other + written[at + len(null) :]
    content = connectors.decode("MySqlSplitSerializer", 4, data)
    assert content["splitEnd"] == [{"class": "java.util.Currency"}]
    assert connectors.encode("MySqlSplitSerializer", 4, content | {"splitId": "x"}) == data.replace(
        b"\0\x0dshop.orders:0", b"\0\x01x"
    )
    with pytest.raises(InvalidRowError, match=r"java\.util\.Currency can't be written"):
        connectors.encode("MySqlSplitSerializer", 4, {**content, "splitEnd": [{"class": "java.util.Currency"}]})


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"splitIdd": "x"}, "'splitIdd' is not known"),
        ({"splitId": 7}, "'splitId': expected text, found 7"),
        ({"kind": "log"}, "'kind' is 'log'; expected one of 'snapshot', 'binlog'"),
        ({"tableId": {"table": None}}, "'tableId': a table id needs|a table id needs"),
        ({"splitEnd": [{"class": "java.lang.Integer", "value": 1 << 40}]}, "'splitEnd'"),
    ],
)
def test_content_that_is_refused(change: dict[str, Any], error: str) -> None:
    with pytest.raises(InvalidRowError, match=error):
        connectors.encode("MySqlSplitSerializer", 4, SPLIT | change)
    with pytest.raises(InvalidRowError, match="'splitId' is missing"):
        connectors.encode("MySqlSplitSerializer", 4, {n: v for n, v in SPLIT.items() if n != "splitId"})


def test_names_of_serializers() -> None:
    with pytest.raises(OptionError, match=r"ambiguous; name one of .*mysql.*base"):
        connectors.decode("PendingSplitsStateSerializer", 1, b"")
