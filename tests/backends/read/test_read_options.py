from __future__ import annotations

import pytest

from state_processor.backends.read.read_options import ReadOptions
from state_processor.serializers.errors import OptionError


def test_times_of_last_access_are_decoded_only_where_needed() -> None:
    assert not ReadOptions().decode.ttl
    assert ReadOptions(metadata=True).decode.ttl
    assert ReadOptions(ttl=1, as_of=1).decode.ttl


def test_representation_is_handed_on() -> None:
    decode = ReadOptions(nanos="truncate", row_kind=True).decode
    assert (decode.nanos, decode.row_kind) == ("truncate", True)


def test_what_expires() -> None:
    assert ReadOptions().oldest_micros is None
    assert ReadOptions(as_of=5).oldest_micros is None
    assert ReadOptions(ttl=1000, as_of=3000).oldest_micros == 2_000_000
    assert ReadOptions(ttl=5000, as_of=3000).oldest_micros == -2_000_000


@pytest.mark.parametrize("ttl", [0, -1])
def test_a_ttl_is_positive(ttl: int) -> None:
    with pytest.raises(OptionError, match="positive duration"):
        ReadOptions(ttl=ttl, as_of=1)


def test_a_ttl_needs_a_point_in_time() -> None:
    with pytest.raises(OptionError, match="ttl needs as_of"):
        ReadOptions(ttl=1)


def test_values_of_nanos() -> None:
    with pytest.raises(OptionError, match="'error', 'check', 'string', 'truncate'"):
        _ = ReadOptions(nanos="round").decode  # type: ignore[arg-type]


def test_the_limit_of_memory_reaches_the_decoder() -> None:
    assert ReadOptions(batch_memory=1 << 20).decode.batch_memory == 1 << 20
