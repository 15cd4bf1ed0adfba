"""Errors of this library from Spark's Python workers."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from state_processor import errors

_RAISED: Final = re.compile(r"^state_processor(?:\.\w+)*\.(\w+): ", re.MULTILINE)
_JVM_TRACE: Final = re.compile(r"\n(?:\s+at |\s*JVM stacktrace|Driver stacktrace| SQLSTATE|\n)")
_NOT_INSTALLED: Final = "ModuleNotFoundError: No module named 'state_processor"


@contextmanager
def our_errors() -> Iterator[None]:
    """Raise errors from tasks as they were raised there, in place of Spark's error that wraps them."""
    try:
        yield
    except PySparkException as failure:
        found = translated(str(failure))
        if found is None:
            raise
        raise found from failure


@contextmanager
def failures_of_tasks() -> Iterator[None]:
    """Raise errors of the job of a write likewise, and the end of workers or executors, for which PySpark has no error."""
    try:
        with our_errors():
            yield
    except Py4JJavaError as failure:
        text = str(failure.java_exception.getMessage())
        raise translated(text) or errors.WriteError(_JVM_TRACE.split(text, maxsplit=1)[0].strip()) from failure


def translated(text: str) -> errors.StateProcessorError | None:
    """Return the error of this library in the text of a failed task, or ``None``."""
    if _NOT_INSTALLED in text:
        return errors.OptionError(
            "Spark runs its workers with a Python that lacks state_processor. Install it there, or set the environment variable "
            f"PYSPARK_PYTHON before the session starts; this Python is {sys.executable}"
        )
    places = list(_RAISED.finditer(text))
    kind = getattr(errors, places[0][1], None) if places else None
    if kind is None:
        return None
    return kind(_JVM_TRACE.split(text[places[0].end() :], maxsplit=1)[0].strip())  # type: ignore[no-any-return]
