"""Python workers of Spark: the package that they import, and what they do not do in small tasks."""

from __future__ import annotations

import atexit
import gc
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final
from weakref import WeakSet
from zipimport import zipimporter

from pyspark import SparkContext
from pyspark.sql import SparkSession

from state_processor.serializers.late import make_arrays_without_pandas

_WHEEL: Final = ".whl"
_SENT: Final[WeakSet[SparkContext]] = WeakSet()
_known_modules = 0


def prepare_worker() -> None:
    """Prepare this process for a task. Call it where a task begins: Spark has just collected the garbage of the task before."""
    make_arrays_without_pandas()
    freeze_imported_objects()


def freeze_imported_objects() -> None:
    """Leave out of later garbage collections the objects that modules have made, if more were imported since the last call.

    Workers of Spark collect garbage after every task. A collection visits the objects of all imported modules, more than a
    hundred thousand: that takes longer than a small task.
    """
    global _known_modules
    if len(sys.modules) > _known_modules:
        _known_modules = len(sys.modules)
        gc.freeze()


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
