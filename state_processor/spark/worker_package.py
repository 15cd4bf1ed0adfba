"""The wheel of this package, sent to Python workers of Spark."""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any, Final
from weakref import WeakSet
from zipimport import zipimporter

from pyspark.sql import SparkSession

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
