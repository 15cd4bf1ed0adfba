"""The Java that Spark would start, checked before: Spark itself ends with a trace of Java on standard error."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from typing import Final

from state_processor.serializers.errors import OptionError

OLDEST: Final = 17
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_SECONDS: Final = 60.0


def check_java(what: str) -> None:
    """Check that the machine has a Java that runs Spark.

    Parameters
    ----------
    what
        What starts Spark, for the message.

    Raises
    ------
    OptionError
        If Java is missing or too old.
    """
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    needs = f"{what} starts Spark, which needs Java {OLDEST} or later; set JAVA_HOME to a JDK"
    if java is None or not os.access(java, os.X_OK):
        raise OptionError(f"{needs}: {java or 'java'} was not found")
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=_SECONDS, check=False).stderr
    except (OSError, subprocess.SubprocessError) as problem:
        raise OptionError(f"{needs}: {java} does not run ({problem})") from None
    version = _VERSION.search(told)
    if version is not None and int(version[1]) < OLDEST:
        raise OptionError(f"{needs}: {java} is Java {version[1]}")
