"""Errors of this library from Spark's Python workers.

Spark hands over the text of an error in a worker: a traceback, and the message behind it. Here it is the message alone, and
the driver raises the error of the worker.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from importlib.util import find_spec
from logging import getLogger
from types import ModuleType
from typing import Any, Final

from pyspark.errors import PySparkException

from state_processor import errors
from state_processor.support.doors import Door, entered
from state_processor.support.errors import describe

_LOG: Final = getLogger("state_processor")
_RAISED: Final = re.compile(r"(?:^|: )state_processor(?:\.\w+)*\.(\w+): ", re.MULTILINE)
_JVM_TRACE: Final = re.compile(r"\n(?:\s+at |\s*JVM stacktrace|Driver stacktrace| SQLSTATE|\n)")
_NOT_INSTALLED: Final = "ModuleNotFoundError: No module named 'state_processor"
_PUSHDOWN_IS_OFF: Final = "DATA_SOURCE_PUSHDOWN_DISABLED] KeyFilteringStateReader"
_WORKER: Final = "pyspark.worker_util"
_HIDE_TRACEBACK: Final = "SPARK_HIDE_TRACEBACK"
"""The variable behind Spark's setting ``spark.sql.execution.pyspark.udf.hideTraceback.enabled``."""
_HAS_JVM: Final = find_spec("py4j") is not None
"""The package pyspark-client has sessions of Spark Connect alone."""
_CLASSIC: Final = import_module("pyspark.errors.exceptions.captured") if _HAS_JVM else None
_JAVA_ERRORS: Final = (import_module("py4j.protocol").Py4JJavaError,) if _HAS_JVM else ()
_NETWORK_ERRORS: Final = (import_module("py4j.protocol").Py4JNetworkError,) if _HAS_JVM else ()
_CONNECT_CLIENT: Final = "pyspark.sql.connect.client.core"
_CONVERT: Final = "convert_exception"


@contextmanager
def without_traceback() -> Iterator[None]:
    """Have Spark show an error of this library without Python's traceback, behind which its message would come.

    A worker ends after an error, so that the setting of tracebacks affects this error alone.
    """
    try:
        yield
    except errors.StateProcessorError as error:
        _LOG.debug("raised in a worker of Spark", exc_info=error)
        if _WORKER in sys.modules:
            os.environ[_HIDE_TRACEBACK] = "true"
        raise


@contextmanager
def asked_by_spark() -> Iterator[None]:
    """Spell options in messages as options of a data source, and raise errors without tracebacks."""
    with without_traceback(), entered(Door.DATA_SOURCE):
        yield


def raise_errors_of_tasks() -> None:
    """Have PySpark raise the errors of workers that are errors of this library, in actions of any DataFrame.

    PySpark does not offer a hook. Its conversion of Java's exceptions is wrapped, once per process, and the conversion of Spark
    Connect once it is used.
    """
    for module in (_CLASSIC, sys.modules.get(_CONNECT_CLIENT)):
        if module is not None:
            _wrap_conversion(module)


def _wrap_conversion(module: ModuleType) -> None:
    convert: Callable[..., Exception] = getattr(module, _CONVERT)
    if hasattr(convert, "__wrapped__"):
        return

    @wraps(convert)
    def converted(*arguments: Any) -> Exception:
        failure = convert(*arguments)
        return translated(str(failure)) or failure

    setattr(module, _CONVERT, converted)


@contextmanager
def unwrap_spark_errors() -> Iterator[None]:
    """Raise the errors of tasks instead of Spark's errors that wrap them."""
    try:
        yield
    except (PySparkException, *_JAVA_ERRORS) as failure:  # the second from iterators over rows
        error = translated(str(failure))
        if error is None:
            raise
        raise error from failure


@contextmanager
def failures_of_tasks() -> Iterator[None]:
    """Raise the errors of the job of a write, and an error if workers or executors ended: PySpark does not raise one."""
    try:
        with unwrap_spark_errors():
            yield
    except _JAVA_ERRORS as failure:
        text = str(failure.java_exception.getMessage())
        raise translated(text) or errors.WriteError(_JVM_TRACE.split(text, maxsplit=1)[0].strip()) from failure


@contextmanager
def lost_sessions() -> Iterator[None]:
    """Raise the end of Spark's JVM in the midst of a write as an error of this library."""
    try:
        yield
    except (*_NETWORK_ERRORS, ConnectionError, EOFError) as failure:
        raise errors.WriteError(
            f"the JVM of Spark does not answer any more ({describe(failure)}); start a new session and write again"
        ) from failure


def translated(text: str) -> errors.StateProcessorError | None:
    """Return the error of this library in the text of a failed task, or ``None``."""
    if _NOT_INSTALLED in text:
        return errors.OptionError(
            "Spark runs its workers with a Python that lacks state_processor. Install it there, or set the environment variable "
            f"PYSPARK_PYTHON before the session starts; this Python is {sys.executable}"
        )
    if _PUSHDOWN_IS_OFF in text:
        return errors.OptionError(
            "pushdown=serves-one-query: Spark does not push filters into Python data sources in this session. Set "
            "spark.sql.python.filterPushdown.enabled to true in it, or choose keys by the option keys"
        )
    places = list(_RAISED.finditer(text))
    kind = getattr(errors, places[0][1], None) if places else None
    if kind is None:
        return None
    return kind(_JVM_TRACE.split(text[places[0].end() :], maxsplit=1)[0].strip())  # type: ignore[no-any-return]
