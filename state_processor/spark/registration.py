"""Registration of the data sources in a Spark session."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from weakref import WeakKeyDictionary, WeakSet

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource

from state_processor.serializers.user_registrations import Registrations
from state_processor.spark.datasource import FlinkSavepointDataSource, FlinkSavepointMetadataDataSource

_ALREADY_THERE: Final = "DATA_SOURCE_ALREADY_EXISTS"
_SESSIONS: WeakSet[SparkSession] = WeakSet()
"""The sessions that have the formats: Spark logs a warning if a format is registered twice."""


def register(spark: SparkSession) -> None:
    """Register the formats ``flink-savepoint`` and ``flink-savepoint-metadata`` in a session. Idempotent.

    Not needed if the package is installed for Spark's Python: Spark finds the formats by itself.
    """
    if spark in _SESSIONS:
        return
    for source in (FlinkSavepointDataSource, FlinkSavepointMetadataDataSource):
        try:
            spark.dataSource.register(source)
        except PySparkException as error:
            if error.getCondition() != _ALREADY_THERE:
                raise
    _SESSIONS.add(spark)


@dataclass(frozen=True, slots=True)
class _FormatWithCode:
    name: str
    source: type[DataSource]
    code: Registrations


_WITH_CODE: Final[WeakKeyDictionary[SparkSession, list[_FormatWithCode]]] = WeakKeyDictionary()


def format_with_code(spark: SparkSession, source: type[DataSource], code: Registrations) -> str:
    """Return the name of a format of the session that is like ``source``, and whose tasks know ``code``.

    Code is part of a class that is registered in the session for it, which Spark pickles as it does with functions of Python.
    """
    if not code:
        return source.name()
    known = _WITH_CODE.setdefault(spark, [])
    for format_ in known:
        if format_.source is source and format_.code.content == code.content:
            return format_.name
    name_ = f"{source.name()}-{len(known)}"

    class WithCode(source):  # type: ignore[misc, valid-type]
        registered = code

        @classmethod
        def name(cls) -> str:
            return name_

    spark.dataSource.register(WithCode)
    known.append(_FormatWithCode(name_, source, code))
    return name_
