"""Sessions of Spark: their settings of S3, and the wheel of this package that their workers get."""

from __future__ import annotations

import atexit
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Final
from weakref import WeakSet
from zipimport import zipimporter

from pyspark.sql import SparkSession

from state_processor.backends.files.filesystems import BUCKET_SETTINGS
from state_processor.backends.files.location import Location
from state_processor.backends.metadata.snapshot import check_path
from state_processor.options.access import SnapshotAccess
from state_processor.support.errors import OptionError

_NAMES: Final = {
    "endpoint": "endpoint_override",
    "endpoint.region": "region",
    "access.key": "access_key",
    "secret.key": "secret_key",
    "session.token": "session_token",
}
"""Hadoop's names, and the names of ``pyarrow.fs.S3FileSystem``."""
_ENCRYPTED: Final = "connection.ssl.enabled"
_BY_PATH: Final = "path.style.access"
_SETTING: Final = re.compile(
    rf"spark\.hadoop\.fs\.s3a\.(?:bucket\.(?P<bucket>.+)\.)?(?P<name>{'|'.join(map(re.escape, (*_NAMES, _ENCRYPTED, _BY_PATH)))})"
)


def with_settings_of_spark(spark: SparkSession, access: SnapshotAccess, path: str | PathLike[str]) -> SnapshotAccess:
    """Return options of access with the settings of Spark; see :func:`with_settings`."""
    if isinstance(spark, (str, PathLike)):
        raise OptionError(f"spark: expected a SparkSession, found {spark!r}; the session comes before the path")
    check_session(spark)
    check_path(path)
    return with_settings(access, path, lambda: settings_of_spark(spark))


def check_session(spark: SparkSession) -> None:
    """Refuse an object that is not a session. Spark Connect has a class of its own."""
    if not hasattr(spark, "createDataFrame"):
        raise OptionError(f"spark: expected a SparkSession, found an object of the class {type(spark).__name__}")


def with_settings(access: SnapshotAccess, path: str | PathLike[str], settings: Callable[[], Mapping[str, Any]]) -> SnapshotAccess:
    """Return options of access with settings of S3 where they apply: for a path of S3, if neither has settings of its own."""
    location = Location.given(path)
    if access.storage_options or location.scheme != "s3" or location.query or "@" in location.authority:
        return access
    return replace(access, storage_options=settings())


def settings_of_spark(spark: SparkSession) -> Mapping[str, Any]:
    """Return the settings of S3 in the configuration of a session, by the names of ``pyarrow.fs.S3FileSystem``.

    Settings of single buckets are among them, each after those of all buckets that it changes (Hadoop:
    ``S3AUtils.propagateBucketOptions``).
    """
    by_bucket: dict[str | None, dict[str, str]] = {None: {}}
    for key, value in spark.conf.getAll.items():
        setting = _SETTING.fullmatch(key)
        if setting and value:
            by_bucket.setdefault(setting["bucket"], {})[setting["name"]] = value
    of_all = by_bucket.pop(None)
    settings = _arguments(of_all)
    for bucket, of_bucket in by_bucket.items():
        settings |= {f"{BUCKET_SETTINGS}{bucket}.{name}": value for name, value in _arguments(of_all | of_bucket).items()}
    return settings


def _arguments(hadoop: Mapping[str, str]) -> dict[str, Any]:
    """Return arguments of ``pyarrow.fs.S3FileSystem`` for settings of Hadoop."""
    arguments: dict[str, Any] = {ours: hadoop[name] for name, ours in _NAMES.items() if name in hadoop}
    if "endpoint_override" in arguments:
        scheme, is_url, host = arguments["endpoint_override"].rpartition("://")
        arguments["scheme"] = scheme if is_url else "http" if hadoop.get(_ENCRYPTED) == "false" else "https"
        arguments["force_virtual_addressing"] = hadoop.get(_BY_PATH) != "true" and not _is_address(host)
    return arguments


def _is_address(endpoint: str) -> bool:
    """Return whether a bucket can't be part of the host's name."""
    host = endpoint.partition("/")[0].rpartition(":")[0] or endpoint
    return host == "localhost" or host.replace(".", "").isdigit()


_WHEEL: Final = ".whl"
_SENT: Final[WeakSet[Any]] = WeakSet()
"""Contexts of Spark. The package pyspark-client does not have their class."""


def send_package(spark: SparkSession) -> None:
    """Send the wheel that this package is imported from, if it is, to all workers of a session, as a zip.

    Spark puts the zips of ``--py-files`` on the path of its workers. It copies wheels to them without a change of the path.
    """
    loader = sys.modules["state_processor"].__loader__
    if not isinstance(loader, zipimporter) or not loader.archive.endswith(_WHEEL):
        return
    context = spark.sparkContext
    if context in _SENT:
        return
    folder = Path(tempfile.mkdtemp(prefix="state-processor-wheel-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    zip_ = folder / f"{Path(loader.archive).stem}.zip"
    shutil.copyfile(loader.archive, zip_)
    context.addPyFile(str(zip_))
    _SENT.add(context)
