"""The source of Kafka that reads clusters by name, whose splits are layouts."""

from __future__ import annotations

from state_processor.backends.connectors import kafka
from tests.backends.connectors.source_tests import Family, SourceWithoutNewSplitsTests

SPLIT = {"topic": "orders", "partition": 3, "startingOffset": 42, "stoppingOffset": None}
CLUSTER = {"clusterId": "east", "topics": ["orders"], "bootstrapServers": "b:9092"}
PARTITIONS = {
    "partitions": [{"topic": "orders", "partition": 3, "assignmentStatus": "ASSIGNED"}],
    "initialDiscoveryFinished": True,
}
FAMILY = Family(
    kafka.DYNAMIC_SPLITS,
    2,
    {"clusterId": "east", "retainedUntilMs": None, "splitVersion": 0, "split": SPLIT},
    kafka.DYNAMIC_ENUMERATOR,
    1,
    {
        "streams": [{"streamId": "s", "clusters": [CLUSTER]}],
        "stateVersion": 2,
        "clusters": [{"clusterId": "east", "state": PARTITIONS}],
    },
    edit_state=lambda state: state.update(clusters=[]),
    columns={"starting_offset": 8},
    fields={"split": SPLIT | {"startingOffset": 8}},
)


class TestDynamicKafka(SourceWithoutNewSplitsTests):
    connector = "dynamic-kafka"
    family = FAMILY
