"""PyFlink for the tests: a virtual environment with apache-flink, and without Flink's jars, which :mod:`flink` has.

Packages that PyFlink requires exclude the pyarrow of this project, so that jobs run in processes of this environment.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.interop import flink, flink_jars

VERSION: Final = "2.3.0"
NEWEST_PYTHON: Final = (3, 12)
"""The newest Python that this PyFlink supports."""
_JARS: Final = "apache-flink-libraries"
_REQUIREMENTS: Final = "from importlib.metadata import requires; print(*requires('apache-flink'), sep='\\n')"


def interpreter() -> Path:
    """Return the Python of the environment, which is made if it is not here yet.

    Raises
    ------
        FlinkError: pip could not fetch a package.
    """
    return flink_jars.made(flink_jars.CACHE / "pyflink" / VERSION, _install) / "bin" / "python"


def run(job: Path, directory: Path) -> str:
    """Run a program of PyFlink with a directory as its argument, and return the last line that it prints.

    Raises
    ------
        FlinkError: it ended with an error or not in time; the message holds its output.
    """
    (directory / "conf").mkdir()
    (directory / "conf" / "config.yaml").write_text(f"env.java.opts.all: {' '.join(flink.JVM_FLAGS)}\n", "utf-8")
    settings = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))},
        "FLINK_HOME": str(flink_jars.distribution(VERSION)),
        "FLINK_CONF_DIR": str(directory / "conf"),
        "FLINK_LOG_DIR": str(directory / "log"),
    }
    printed = flink_jars.call((str(interpreter()), str(job), str(directory)), f"{job.name} on PyFlink {VERSION}", 600, settings)
    return printed.strip().splitlines()[-1]


def _install(target: Path) -> None:
    python = target / "bin" / "python"
    flink_jars.call((sys.executable, "-m", "venv", "--without-pip", str(target)), "making an environment for PyFlink", 120)
    options = ("--quiet", "--disable-pip-version-check", "--no-compile")
    pip = (sys.executable, "-m", "pip", "--python", str(python), "install", *options)
    flink_jars.call((*pip, "--no-deps", f"apache-flink=={VERSION}"), f"fetching PyFlink {VERSION}", 600)
    required = subprocess.run((python, "-c", _REQUIREMENTS), check=True, capture_output=True, text=True).stdout.splitlines()
    packages = [name for name in required if not name.startswith(_JARS) and "extra ==" not in name]
    flink_jars.call((*pip, *packages), f"fetching the packages of PyFlink {VERSION}", 1200)


if __name__ == "__main__":
    interpreter()
