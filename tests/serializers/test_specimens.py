"""Every specimen, own ones and ones from Flink's upgrade tests: snapshot and value are read completely and rewritten identically.

:data:`BEYOND_BYTES` lists undecodable specimens with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from state_processor.serializers import (
    DecodeOptions,
    TypeSerializer,
    read_serializer_snapshot,
    register_kryo_class,
    registrations,
)
from state_processor.serializers.kryo.classes import BARE_FIRST_USER_ID
from state_processor.serializers.kryo.serializer import KryoSerializer
from state_processor.support.errors import UnsupportedFormatError
from tests.serializers.harness import OFFICIAL, Specimen, check_payloads, specimen_modules, specimens
from tests.serializers.kryo_specimens import with_first_id

BEYOND_BYTES = {
    "value-serializer": "ValueSerializer calls NameValue.write, code of the test's class",
    "copyable-value-serializer": "CopyableValueSerializer calls SimpleCopyable.write, code of the test's class",
    "writeable-serializer": "WritableSerializer calls WritableName.write, code of the test's class",
    "kryo-custom-type-serializer-changed-registration-order": "DogKryoSerializer, a Kryo serializer of the test's own",
}
"""By the name of a specimen of Flink's own tests: what in Flink would be needed to decode it."""

ANIMALS = "org.apache.flink.api.java.typeutils.runtime.kryo.KryoPojosForMigrationTests$"


def _all() -> list[Specimen]:
    return [s for module in specimen_modules() for s in specimens(module, "*")]


@pytest.fixture(autouse=True)
def _animals() -> Iterator[None]:
    """The classes of Flink's Kryo tests: nothing in their bytes tells the fields."""
    with registrations():
        register_kryo_class(f"{ANIMALS}Animal", None)
        register_kryo_class(f"{ANIMALS}Dog", {"name": "java.lang.String"})
        yield


def _as_in_the_test(serializer: TypeSerializer) -> TypeSerializer:
    """flink-core's tests run without flink-java; it would reserve Kryo's class numbers up to 84."""
    return with_first_id(serializer, BARE_FIRST_USER_ID) if isinstance(serializer, KryoSerializer) else serializer


@pytest.mark.parametrize("specimen", _all(), ids=str)
def test_specimen(specimen: Specimen) -> None:
    flink_major = int(specimen.name.rpartition("-")[2].split(".")[0])
    snapshot = read_serializer_snapshot(specimen.snapshot, specimen.name, flink_major=flink_major)
    serializer = snapshot.restore_serializer()
    assert snapshot.to_bytes() == specimen.snapshot
    assert serializer.snapshot().to_bytes() == specimen.snapshot
    if specimen.origin:
        serializer = _as_in_the_test(serializer)
    if specimen.origin and specimen.name.rpartition("-")[0] in BEYOND_BYTES:
        with pytest.raises(UnsupportedFormatError):
            serializer.deserialize(specimen.data)
    elif isinstance(serializer, KryoSerializer):
        # Read values can be written; values from columns can't.
        assert serializer.serialize(serializer.deserialize(specimen.data)) == specimen.data
    else:
        check_payloads(serializer, [specimen.data], DecodeOptions(nanos="string"))


def test_exceptions_are_there() -> None:
    missing = BEYOND_BYTES.keys() - {s.name.rpartition("-")[0] for s in _all() if s.origin}
    assert missing == (set() if OFFICIAL.is_dir() else BEYOND_BYTES.keys())
