from __future__ import annotations

import pytest

from state_processor.backends.metadata.operator_id import murmur3_128, operator_id


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
