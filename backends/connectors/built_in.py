"""The connectors of this package."""

from __future__ import annotations

from typing import Final

from state_processor.backends.connectors.aws_sinks import DYNAMODB_SINK, FIREHOSE_SINK, KINESIS_SINK, SQS_SINK
from state_processor.backends.connectors.cdc import CDC, MYSQL_CDC
from state_processor.backends.connectors.connector import Connector
from state_processor.backends.connectors.dynamic_kafka import DYNAMIC_KAFKA
from state_processor.backends.connectors.file import FILE
from state_processor.backends.connectors.file_sink import FILE_SINK
from state_processor.backends.connectors.hybrid import HYBRID
from state_processor.backends.connectors.iceberg import DYNAMIC_SINK, FILES_COMMITTER, ICEBERG, ICEBERG_SINK
from state_processor.backends.connectors.kafka import KAFKA
from state_processor.backends.connectors.kafka_sink import KAFKA_SINK
from state_processor.backends.connectors.paimon import PAIMON
from state_processor.backends.connectors.paimon_sink import PAIMON_SINK
from state_processor.backends.connectors.pulsar import PULSAR, PULSAR_SINK
from state_processor.backends.connectors.sequence import SEQUENCE
from state_processor.backends.connectors.sinks import SinkConnector
from state_processor.backends.connectors.streams import DYNAMODB, KINESIS
from state_processor.backends.connectors.write_ahead import WRITE_AHEAD

SOURCES: Final[tuple[Connector, ...]] = (
    *(SEQUENCE, KAFKA, DYNAMIC_KAFKA, FILE, HYBRID),
    *(MYSQL_CDC, CDC, KINESIS, DYNAMODB, ICEBERG, PAIMON, PULSAR),
)
SINKS: Final[tuple[SinkConnector, ...]] = (
    *(KAFKA_SINK, FILE_SINK, ICEBERG_SINK, DYNAMIC_SINK, FILES_COMMITTER, PAIMON_SINK, PULSAR_SINK),
    *(KINESIS_SINK, FIREHOSE_SINK, SQS_SINK, DYNAMODB_SINK, WRITE_AHEAD),
)
