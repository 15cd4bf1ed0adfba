"""Bytes of Kafka: the corpus, and states of ``DynamicKafkaSource`` as its sources describe them."""

from __future__ import annotations

from typing import Any

import pytest

from state_processor import connectors
from tests.backends.connectors.java_data import Data
from tests.corpus import CORPUS

SPECIMENS = CORPUS / "connectors" / "kafka.txt"
SERIALIZERS = {
    "split": "KafkaPartitionSplitSerializer",
    "enum": "KafkaSourceEnumStateSerializer",
    "writer": "KafkaWriterStateSerializer",
    "committable": "KafkaCommittableSerializer",
}
SPLIT = {"topic": "tö", "partition": 3, "startingOffset": 42, "stoppingOffset": None}
BYTES_OF_SPLIT = Data().utf("tö").int(3).long(42).long(-(2**63)).data


def check(serializer: str, version: int, data: bytes, content: Any) -> None:
    assert connectors.decode(serializer, version, data) == content
    assert connectors.encode(serializer, version, content) == data


@pytest.mark.corpus(instead="tests/backends/connectors/test_kafka_bytes.py::test_states_of_enumerators")
@pytest.mark.skipif(not SPECIMENS.exists(), reason="the corpus is not there")
def test_specimens() -> None:
    lines = [line.split() for line in SPECIMENS.read_text("utf-8").splitlines()]
    assert {name for name, _, _ in lines} == set(SERIALIZERS)
    for name, version, data in lines:
        content = connectors.decode(SERIALIZERS[name], int(version), bytes.fromhex(data))
        assert connectors.encode(SERIALIZERS[name], int(version), content).hex() == data


def test_states_of_enumerators() -> None:
    name = SERIALIZERS["enum"]
    framed = Data().int(len(BYTES_OF_SPLIT)).data + BYTES_OF_SPLIT
    partition = {"topic": "tö", "partition": 3}
    check(
        name,
        0,
        Data().int(1).int(0).int(7).int(1).data + framed,
        {"splitSerializerVersion": 0, "readers": [{"subtask": 7, "splits": [SPLIT]}]},
    )
    check(name, 1, Data().int(1).utf("tö").int(3).data, {"assignedPartitions": [partition]})
    check(
        name,
        2,
        Data().int(1).utf("tö").int(3).int(2).bool(True).data,
        {"partitions": [partition | {"assignmentStatus": "TOMBSTONED"}], "initialDiscoveryFinished": True},
    )
    check(
        name,
        3,
        Data().int(1).int(0).data + framed + Data().int(1).bool(False).data,
        {
            "splitSerializerVersion": 0,
            "splits": [{"split": SPLIT, "assignmentStatus": "UNASSIGNED"}],
            "initialDiscoveryFinished": False,
        },
    )


@pytest.mark.parametrize("retained", [None, 1_700_000_000_000])
def test_splits_of_several_clusters(retained: int | None) -> None:
    name, content = "DynamicKafkaSourceSplitSerializer", {"clusterId": "c", "splitVersion": 0, "split": SPLIT}
    flag = Data().bool(retained is not None) if retained is None else Data().bool(True).long(retained)
    check(name, 1, Data().utf("c").int(0).data + BYTES_OF_SPLIT, content)
    written = Data().utf("c").data + flag.data + Data().int(0).data + BYTES_OF_SPLIT
    check(name, 2, written, content | {"retainedUntilMs": retained})


@pytest.mark.parametrize("version", [1, 2, 3])
def test_enumerators_of_several_clusters(version: int) -> None:
    data = Data().int(1).utf("s").int(1).utf("c").int(2).utf("t").utf("u").utf("b:9092")
    cluster: dict[str, Any] = {"clusterId": "c", "topics": ["t", "u"], "bootstrapServers": "b:9092"}
    if version > 1:
        data.bool(False).bool(True).sized(b"\xac\xed")
        cluster |= {"startingOffsetsInitializer": None, "stoppingOffsetsInitializer": "aced"}
    state = Data().int(0).bool(True).data
    read = {"partitions": [], "initialDiscoveryFinished": True}
    data.int(2).int(1).utf("c").sized(state)
    content = {
        "streams": [{"streamId": "s", "clusters": [cluster]}],
        "stateVersion": 2,
        "clusters": [{"clusterId": "c", "state": read}],
    }
    if version == 3:
        data.int(1).utf("old").long(5).sized(state)
        content["retainedClusters"] = [{"clusterId": "old", "retainedUntilMs": 5, "state": read}]
    check("DynamicKafkaSourceEnumStateSerializer", version, data.data, content)
