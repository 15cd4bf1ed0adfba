from __future__ import annotations

import pytest

from state_processor.backends.metadata.operator_id import murmur3_128, operator_id, operator_id_of_hash
from state_processor.serializers.errors import OptionError


@pytest.mark.parametrize(
    ("uid", "expected"),
    [
        ("kp", "79905d1bb8afd98f33ca8b3501e11266"),
        ("opstate", "21991e99748be05b56fddb2033c0ff3b"),
        ("src", "f362c87ffabe89c8a91fa7d0a523ba6c"),
    ],
)
def test_ids_of_real_flink(uid, expected):
    assert operator_id(uid) == expected


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "00000000000000000000000000000000"),
        (b"The quick brown fox jumps over the lazy dog", "6c1b07bc7bbc4be347939ac4a93c437a"),
    ],
)
def test_published_vectors_of_murmur3(data, expected):
    assert murmur3_128(data).hex() == expected


def test_uid_hash_is_used_as_it_is():
    assert operator_id_of_hash("BC764CD8DDF7A0CFF126F51C16239658") == "bc764cd8ddf7a0cff126f51c16239658"


@pytest.mark.parametrize("wrong", ["orders", "bc76", "g" * 32, "a" * 33])
def test_what_is_no_uid_hash(wrong):
    with pytest.raises(OptionError, match="32 hexadecimal digits"):
        operator_id_of_hash(wrong)
