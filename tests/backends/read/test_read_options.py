from __future__ import annotations

import pytest

from state_processor.backends.read.read_options import ReadOptions
from state_processor.support.errors import OptionError


def test_times_of_last_access_are_decoded_only_where_needed() -> None:
    assert not ReadOptions().of_states().values.ttl
    assert ReadOptions.of(metadata=True).of_states().values.ttl
    assert ReadOptions(ttl=1, as_of=1).of_states().values.ttl


def test_representation_is_handed_on() -> None:
    values = ReadOptions.of(nanos="truncate", row_kind=True, batch_memory=1 << 20).of_states().values
    assert (values.nanos, values.row_kind, values.batch_memory) == ("truncate", True, 1 << 20)


def test_what_expires() -> None:
    assert ReadOptions().newest_expired is None
    assert ReadOptions.of(as_of=5).newest_expired is None
    assert ReadOptions(ttl=1000, as_of=3000).newest_expired == 2_000_000
    assert ReadOptions(ttl=5000, as_of=3000, expired="only").newest_expired == -2_000_000
    assert ReadOptions(ttl=1000, as_of=3000, expired="include").newest_expired is None


@pytest.mark.parametrize("ttl", [0, -1])
def test_a_ttl_is_positive(ttl: int) -> None:
    with pytest.raises(OptionError, match="positive duration"):
        ReadOptions(ttl=ttl, as_of=1)


def test_a_ttl_needs_a_point_in_time() -> None:
    with pytest.raises(OptionError, match="ttl needs as_of"):
        ReadOptions(ttl=1)


def test_values_of_nanos() -> None:
    with pytest.raises(OptionError, match="'error', 'check', 'string', 'truncate'"):
        ReadOptions.of(nanos="round").of_states()  # type: ignore[arg-type]
