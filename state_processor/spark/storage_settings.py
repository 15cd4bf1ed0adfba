"""Settings of S3 in the configuration of Spark, for snapshots that come without settings of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from os import PathLike
from typing import Any, Final

from pyspark.sql import SparkSession

from state_processor.backends.files.location import Location
from state_processor.options.access import SnapshotAccess

_PREFIX: Final = "spark.hadoop.fs.s3a."
_NAMES: Final = {
    "endpoint": "endpoint_override",
    "endpoint.region": "region",
    "access.key": "access_key",
    "secret.key": "secret_key",
    "session.token": "session_token",
}
"""Hadoop's names, and those of ``pyarrow.fs.S3FileSystem``."""


def with_settings_of_spark(spark: SparkSession, access: SnapshotAccess, path: str | PathLike[str]) -> SnapshotAccess:
    """Return options of access with the settings of Spark; see :func:`with_settings`."""
    return with_settings(access, path, lambda: settings_of_spark(spark))


def with_settings(
    access: SnapshotAccess, path: str | PathLike[str], settings: Callable[[], Mapping[str, Any]]
) -> SnapshotAccess:
    """Return options of access with settings of S3 where they apply: for a path of S3, if neither has settings of its own."""
    location = Location.given(path)
    if access.storage_options or location.scheme != "s3" or location.query or "@" in location.authority:
        return access
    return replace(access, storage_options=settings())


def settings_of_spark(spark: SparkSession) -> Mapping[str, Any]:
    """Return what the configuration of a session says about S3, by the names of ``pyarrow.fs.S3FileSystem``."""

    def get(name: str) -> str | None:
        return spark.conf.get(_PREFIX + name, None)

    found: dict[str, Any] = {ours: value for name, ours in _NAMES.items() if (value := get(name))}
    if "endpoint_override" in found:
        if get("connection.ssl.enabled") == "false" and "://" not in found["endpoint_override"]:
            found["scheme"] = "http"
        found["force_virtual_addressing"] = get("path.style.access") != "true" and not _is_address(found["endpoint_override"])
    return found


def _is_address(endpoint: str) -> bool:
    """Return whether a bucket can't be part of the host's name."""
    host = endpoint.rpartition("://")[2].partition("/")[0].rpartition(":")[0] or endpoint
    return host == "localhost" or host.replace(".", "").isdigit()
