"""Layouts of sources and sinks of Pulsar, with strategies of their content."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from state_processor.plugins import pulsar
from state_processor.plugins.pulsar import CONNECTORS
from tests.backends.connectors.layout_tests import LayoutTests, names_of

Strategy = st.SearchStrategy[Any]
TEXT = st.text(max_size=5)
INTS, LONGS = (st.integers(-(1 << bits), (1 << bits) - 1) for bits in (31, 63))
STOP = "org.apache.flink.connector.pulsar.source.enumerator.cursor.stop"
AT_TIME = {"inclusive": st.booleans(), "timestamp": LONGS}
CURSORS: Strategy = st.one_of(
    st.fixed_dictionaries({"class": st.just(f"{STOP}.NeverStopCursor")}),
    st.fixed_dictionaries({"class": st.just(f"{STOP}.PublishTimestampStopCursor"), **AT_TIME}),
    st.fixed_dictionaries({"class": st.just(f"{STOP}.EventTimestampStopCursor"), **AT_TIME}),
    st.fixed_dictionaries(
        {"class": st.just(f"{STOP}.LatestMessageStopCursor"), "inclusive": st.booleans(), "messageId": st.none()}
    ),
)
MESSAGE_IDS = st.fixed_dictionaries(
    {
        "ledgerId": LONGS,
        "entryId": LONGS,
        "partition": st.integers(-1, 9),
        "batchIndex": st.integers(-1, 9),
        "batchSize": st.integers(0, 9),
    }
)
RANGES = st.fixed_dictionaries({"start": INTS, "end": INTS})


def partitions(version: int) -> Strategy:
    """Return topics with ranges of keys. Version 0 has one range, and version 1 the mode of the subscription."""
    ranges = st.lists(RANGES, min_size=1, max_size=1) if version == 0 else st.lists(RANGES, max_size=2)
    mode = {"subscriptionMode": INTS} if version == 1 else {}
    return st.fixed_dictionaries({"topic": TEXT, "partitionId": INTS, "ranges": ranges, **mode})


def _with_id(content: dict[str, Any], message: dict[str, Any] | None) -> dict[str, Any]:
    data = None if message is None else pulsar.message_bytes(message)
    return content | {"latestConsumedId": message, "latestConsumedIdBytes": data}


def splits(version: int) -> Strategy:
    transaction = st.fixed_dictionaries({"mostSigBits": LONGS, "leastSigBits": LONGS})
    fields = {
        "partition": partitions(version),
        "stopCursor": CURSORS,
        "uncommittedTransactionId": st.none() | transaction,
    }
    return st.builds(_with_id, st.fixed_dictionaries(fields), st.none() | MESSAGE_IDS)


def topics(version: int) -> dict[str, Strategy]:
    return {"appendedPartitions": st.lists(partitions(version), max_size=2)}


def _by_number(values: Strategy) -> Strategy:
    return st.lists(st.fixed_dictionaries({"key": INTS, "value": st.lists(values, max_size=2)}), max_size=2)


FIRST_STATE = st.fixed_dictionaries(
    {
        **topics(0),
        "pendingPartitionSplits": st.lists(splits(0), max_size=2),
        "sharedPendingPartitionSplits": _by_number(splits(0)),
        "readerAssignedSplits": _by_number(TEXT),
        "initialized": st.booleans(),
    }
)
CONTENTS: dict[tuple[str, int], Strategy] = {
    **{(pulsar.SPLITS, version): splits(version) for version in range(3)},
    (pulsar.ENUMERATOR, 0): FIRST_STATE,
    **{(pulsar.ENUMERATOR, version + 1): st.fixed_dictionaries(topics(version)) for version in range(3)},
    (pulsar.COMMITTABLES, 1): st.fixed_dictionaries({"mostSigBits": LONGS, "leastSigBits": LONGS, "topic": TEXT}),
}


class TestLayouts(LayoutTests):
    names = names_of(CONNECTORS)
    contents = CONTENTS
