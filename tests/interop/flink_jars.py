"""Flink's jars for the tests, from the package index.

They land in ``.cache/flink/VERSION``, once. A directory appears under its name only when it is complete, so an interrupted run
leaves nothing half-made behind. Of processes that need the same, one makes it and the others wait.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath

from tests.interop.jvms import FlinkError, tail

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache"
VERSIONS = ("1.18.1", "1.20.5", "2.0.2", "2.3.0")
"""The Flink versions that the Java sources are written for."""

_FOLDERS = {
    "lib": ("flink-dist", "log4j"),  # MiniCluster, the state backends and RocksDB are in flink-dist
    "libraries": ("flink-cep", "flink-scala", "flink-table-api-java-uber", "flink-table-runtime"),
    "planner": ("flink-table-planner-loader",),
    "python-and-files": ("flink-python", "flink-connector-files"),
}
"""The jars of a version by the folder that they are kept in: with what their names begin in the package."""


def jars(version: str) -> list[Path]:
    """Return Flink's jars for the class path, fetched from the package index if they are not here yet.

    Raises
    ------
        FlinkError: pip could not fetch the package, or it holds no flink-dist.
    """
    lib = _jars(version, "lib")
    if not any(jar.name.startswith("flink-dist") for jar in lib):
        raise FlinkError(f"apache-flink-libraries {version} holds no flink-dist jar")
    return lib


def libraries(version: str) -> list[Path]:
    """Return the jars of Flink's libraries (table API, pattern matching, Scala). Few tests need them in addition to :func:`jars`.

    Raises
    ------
        FlinkError: pip could not fetch the package.
    """
    return _jars(version, "libraries")


def planner(version: str) -> Path:
    """Return the jar of the planner of Flink SQL, without the one that loads it: every JVM would unpack that.

    Raises
    ------
        FlinkError: pip could not fetch the package.
    """

    def unpack(target: Path) -> None:
        (loader,) = _jars(version, "planner")
        with zipfile.ZipFile(loader) as content:
            content.extract("flink-table-planner.jar", target)

    return made(CACHE / "flink" / f"{version}-planner", unpack) / "flink-table-planner.jar"


def python_and_files(version: str) -> list[Path]:
    """Return the jars of PyFlink's and the file connector's classes. Few tests need them in addition to :func:`jars`."""
    return _jars(version, "python-and-files")


def jar_of_package(package: str, jar: str, folder: str) -> Path:
    """Return a jar from the wheel of a Python package, such as ``flink-agents==0.1.1``.

    Args:
        package: the package and its version.
        jar: the path of the jar in the wheel.
        folder: the folder below ``.cache/flink`` that keeps the jar.

    Raises
    ------
        FlinkError: pip could not fetch the package.
    """
    name = PurePosixPath(jar).name

    def fetch(target: Path) -> None:
        with (
            tempfile.TemporaryDirectory(dir=CACHE) as downloads,
            zipfile.ZipFile(_download(package, downloads)) as wheel,
            wheel.open(jar) as content,
            (target / name).open("wb") as copy,
        ):
            shutil.copyfileobj(content, copy)

    return made(CACHE / "flink" / folder, fetch) / name


def distribution(version: str) -> Path:
    """Return a directory like the one of an installed Flink, with the jars of the planner in ``lib``.

    Raises
    ------
        FlinkError: pip could not fetch the jars.
    """

    def link(target: Path) -> None:
        (target / "lib").mkdir()
        for folder in ("lib", "libraries", "planner", "python-and-files"):
            for jar in _jars(version, folder):
                (target / "lib" / jar.name).symlink_to(jar.resolve())  # .cache may be a link itself

    return made(CACHE / "flink" / f"{version}-distribution", link)


def _jars(version: str, folder: str) -> list[Path]:
    """Return the jars of one of :data:`_FOLDERS`."""
    package = made(CACHE / "flink" / version, lambda target: _fetch(version, target))
    if not (package / folder).is_dir():
        raise FlinkError(f"{package} does not have a folder {folder}: delete it; it is downloaded again")
    return sorted((package / folder).glob("*.jar"))


def _fetch(version: str, target: Path) -> None:
    """Fetch Flink's jars into their folders."""
    with tempfile.TemporaryDirectory(dir=CACHE) as downloads:
        _unpack_jars(_download(f"apache-flink-libraries=={version}", downloads), target)


def _download(package: str, downloads: str) -> Path:
    """Fetch a package from the package index into an empty directory."""
    options = ("--disable-pip-version-check", "--no-cache-dir", "--no-deps", "--dest", downloads)
    call((sys.executable, "-m", "pip", "download", *options, package), f"fetching {package}", timeout=1800)
    (file,) = Path(downloads).iterdir()
    return file


def _unpack_jars(package: Path, target: Path) -> None:
    for folder in _FOLDERS:
        (target / folder).mkdir()

    def place(name: str) -> Path | None:
        path = PurePosixPath(name)
        if path.parent.name not in ("lib", "opt") or path.suffix != ".jar":
            return None
        return next((target / folder / path.name for folder, names in _FOLDERS.items() if path.name.startswith(names)), None)

    if package.suffix == ".whl":
        with zipfile.ZipFile(package) as wheel:
            for name in wheel.namelist():
                if jar := place(name):
                    with wheel.open(name) as content, jar.open("wb") as copy:
                        shutil.copyfileobj(content, copy)
        return
    with tarfile.open(package) as archive:
        for member in archive:
            if member.isfile() and (jar := place(member.name)):
                found = archive.extractfile(member)
                assert found is not None
                with found, jar.open("wb") as copy:
                    shutil.copyfileobj(found, copy)


def made(target: Path, fill: Callable[[Path], None]) -> Path:
    """Return a directory; if it is not there yet, fill it under another name first."""
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / f".{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.is_dir():
            with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as work:
                output = Path(work, target.name)
                output.mkdir()
                fill(output)
                output.rename(target)
    return target


def tool(name: str) -> str:
    home = os.environ.get("JAVA_HOME")
    path = shutil.which(name, path=f"{home}/bin") if home else None
    path = path or shutil.which(name)
    if path is None:
        raise FlinkError(f"{name} not found: install a JDK of version 17 or newer, or set JAVA_HOME to one")
    return path


def call(command: Sequence[str], what: str, timeout: float, settings: Mapping[str, str] | None = None) -> str:
    """Run a command, by default with the variables of this process, and return its output.

    Raises
    ------
        FlinkError: it ended with an error or not in time; the message holds its output.
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False, env=settings)
    except subprocess.TimeoutExpired as late:
        raise FlinkError(f"{what}: not done after {timeout:.0f} s\n{tail(late.stdout)}\n{tail(late.stderr)}") from None
    if done.returncode:
        raise FlinkError(f"{what}: exit code {done.returncode}\n{tail(done.stdout)}\n{tail(done.stderr)}")
    return done.stdout
