"""Values of classes that write themselves: they are refused by name, or read by a serializer of the user."""

from __future__ import annotations

import pyarrow as pa
import pytest

from state_processor.serializers import (
    DecodeOptions,
    TypeSerializer,
    read_serializer_snapshot,
    register_snapshot,
)
from state_processor.serializers.compatibility import Verdict
from state_processor.serializers.core.basic import NumberSerializer, StringSerializer
from state_processor.serializers.core.collections import ListSerializer
from state_processor.serializers.core.tuples import TupleSerializer
from state_processor.serializers.core.unread import reason_end_unknown
from state_processor.serializers.core.user_code import GenericTypeSerializerSnapshot, UserCodeSerializer
from state_processor.serializers.errors import UnsupportedFormatError
from state_processor.serializers.flink_packages import RUNTIME
from tests.serializers.harness import (
    Specimen,
    check_snapshot,
    specimens,
)

PLAIN, WITH_KIND = DecodeOptions(), DecodeOptions(row_kind=True)
BYTE, INT, LONG, STRING = NumberSerializer("BYTE"), NumberSerializer("INT"), NumberSerializer("LONG"), StringSerializer()
VALUE_SNAPSHOT = f"{RUNTIME}ValueSerializer$ValueSerializerSnapshot"


def test_values_that_write_themselves_are_refused_by_name() -> None:
    serializer = UserCodeSerializer("com.acme.Money", VALUE_SNAPSHOT)
    check_snapshot(serializer.snapshot())
    assert str(serializer) == "VALUE<com.acme.Money>"
    assert serializer.arrow_type(PLAIN) == pa.binary()
    assert "com.acme.Money" in reason_end_unknown(ListSerializer(serializer))
    with pytest.raises(UnsupportedFormatError, match=r"com\.acme\.Money.*Value\.write.*register_value_class"):
        serializer.deserialize(b"\0")
    with pytest.raises(UnsupportedFormatError, match=r"com\.acme\.Money"):
        serializer.serialize(None)
    other = UserCodeSerializer("com.acme.Cash", VALUE_SNAPSHOT)
    assert "com.acme.Cash is required" in serializer.snapshot().resolve_schema_compatibility(other).reason
    assert serializer.snapshot().resolve_schema_compatibility(serializer).verdict is Verdict.COMPATIBLE_AS_IS


class MoneySnapshot(GenericTypeSerializerSnapshot):
    def restore_serializer(self) -> TypeSerializer:
        return TupleSerializer([LONG, STRING]) if self.type_class == "com.acme.Money" else super().restore_serializer()


@pytest.mark.usefixtures("own_registrations")
def test_users_put_their_reader_in_the_place_of_flinks() -> None:
    register_snapshot(VALUE_SNAPSHOT, MoneySnapshot)
    data = UserCodeSerializer("com.acme.Money", VALUE_SNAPSHOT).snapshot().to_bytes()
    snapshot = read_serializer_snapshot(data)
    assert snapshot.to_bytes() == data
    assert snapshot.restore_serializer().deserialize(bytes.fromhex("0000000000000005036162")) == (5, "ab")


NAMES = {"value": "VALUE<", "copyable-value": "COPYABLE_VALUE<", "writeable": "WRITABLE<"}


@pytest.mark.parametrize(
    "specimen",
    [
        s
        for module, pattern in (
            ("flink-core", "value-serializer-*"),
            ("flink-core", "copyable-value-*"),
            ("flink-hadoop-compatibility", "*"),
        )
        for s in specimens(module, pattern)
    ],
    ids=str,
)
def test_specimens_of_user_code(specimen: Specimen) -> None:
    snapshot = read_serializer_snapshot(specimen.snapshot)
    assert snapshot.to_bytes() == specimen.snapshot
    restored = str(snapshot.restore_serializer())
    assert restored.startswith(NAMES[specimen.name[: specimen.name.index("-serializer")]] + "org.apache.flink.")
