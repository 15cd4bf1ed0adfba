"""JSON of users: what Python would take in another meaning, or not at all."""

from __future__ import annotations

import pyarrow as pa
import pytest

from state_processor.serializers.json_text import parse_json
from state_processor.serializers.kernel.encode.encoder import encode_column
from state_processor.support.errors import InvalidRowError
from state_processor.types.flink_types import Types

REFUSED = {
    "a number that no double holds": ("[1.5, -1e999]", "-1e999 in JSON is too large for a double"),
    "a number of exponent alone": ('{"a": 1e400}', "1e400 in JSON is too large"),
    "lists in lists": ("[" * 100_000, "nested too deeply"),
    "a number of many digits": ("7" * 200_000, "Exceeds the limit"),
    "no JSON": ("[1", "Expecting"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    text, problem = REFUSED[case]
    with pytest.raises(ValueError, match=problem):
        parse_json(text)


def test_what_json_says() -> None:
    assert parse_json('{"a": [1, 1.5, 1e308, null, true, "x"]}') == {"a": [1, 1.5, 1e308, None, True, "x"]}


@pytest.mark.parametrize(
    "text", ["[1e999]", "[" * 100_000, "[" * 900 + "]" * 900, '[{"@class": "java.math.BigInteger", "@value": "1e999999999"}]']
)
def test_columns_that_kryo_writes_refuse_it(text: str) -> None:
    column = Types.KRYO("java.util.List").for_flink(2)
    with pytest.raises(InvalidRowError, match="column value of row 0 does not fit"):
        encode_column(column, pa.array([text]))
