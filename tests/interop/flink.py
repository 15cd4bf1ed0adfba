"""Real Flink for the tests: our Java sources compiled against its jars (:mod:`flink_jars`), a JVM to run them.

Sources are compiled once, to ``.cache/classes/VERSION-HASH``, in a JVM that is kept: its compiler is warm after the first time.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.interop import jvms
from tests.interop.flink_jars import CACHE, VERSIONS, call, jars, libraries, made, planner, python_and_files, tool
from tests.interop.jvms import FlinkError as FlinkError

SOURCES = Path(__file__).resolve().parent / "java"
STATE_CLASSES = SOURCES.parents[2] / "notebooks" / "java" / "classes"
PACKAGE = "io.stateprocessor.interop"
_SERVED = f"{PACKAGE}.Served"
CLASSES = "classes.jar"
_OF_COMPILER = VERSIONS[-1]
"""The version of Flink whose JVM compiles. Only the classes of this JVM are compiled by ``javac`` itself."""

_SINGLE = ("VALUE", "REDUCING", "AGGREGATING")

# The rights that Flink's own start scripts give the JVM (env.java.opts.all in its default configuration).
_OPENED = (
    *("java.lang", "java.lang.reflect", "java.io", "java.net", "java.nio", "sun.nio.ch", "java.text", "java.time"),
    *("java.util", "java.util.concurrent", "java.util.concurrent.atomic", "java.util.concurrent.locks"),
)
# Otherwise, a JVM spends its time on compiling code that runs a few times, on verifying classes from javac, and on collections
# that free nothing whenever the loaded classes need more space.
_SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:MetaspaceSize=256m")
_NOT_VERIFYING = ("-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote")
# Otherwise, JVMs that wait for the next test wake hundreds of times a second: each cluster has two schedulers of Pekko.
_IDLE = ("-Dpekko.scheduler.tick-duration=50ms", "-XX:-UsePerfData")
JVM_FLAGS = [
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
    "--add-opens=java.base/jdk.internal.loader=ALL-UNNAMED",  # Served adds jars to the class path
    "--add-exports=java.base/sun.net.util=ALL-UNNAMED",
    "--add-exports=java.rmi/sun.rmi.registry=ALL-UNNAMED",
    "--add-exports=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
]


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


def _asked(version: str, main: str, requests: Sequence[Any], *arguments: str, class_path: Sequence[Path] = ()) -> Any:
    """Return the answers of one of our main classes to requests."""
    CACHE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as exchange:
        asked, answered = Path(exchange, "requests.json"), Path(exchange, "answers.json")
        asked.write_text(json.dumps(list(requests)), "utf-8")
        run_kept(version, main, [str(asked), str(answered), *arguments], class_path)
        return json.loads(answered.read_text("utf-8"))


def sql_class_path(version: str) -> list[Path]:
    """Return the jars for Flink SQL, pattern matching, PyFlink's classes and files, in addition to :func:`jars`."""
    return [*libraries(version), planner(version), table_classes(version), *python_and_files(version)]


def pipelines(version: str, requests: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Run pipelines of Flink's own operators until a savepoint, or from one to the end of time: see ``Pipelines``.

    Args:
        version: the Flink version.
        requests: each has the ``shape``, ``anonymous``, ``backend``, the directory ``to`` for a savepoint, ``files``, and the
            ``savepoint`` to begin with.

    Returns
    -------
        The ``savepoint`` that each wrote, and its results, ``emitted``; or the ``error``.

    Raises
    ------
        FlinkError: Flink did not run.
    """
    folders = [SOURCES / "pipelines", SOURCES / f"pipelines{version.split('.', maxsplit=1)[0]}"]
    compiled = _compiled(version, folders, [classes(version), *sql_class_path(version)])
    answers: list[dict[str, Any]] = _asked(version, "Pipelines", requests, class_path=[compiled])
    return answers


def streamed(version: str, requests: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Run jobs over numbered events from a savepoint to the next: see ``StreamedEvents``.

    Args:
        version: the Flink version.
        requests: each has the ``job``, the ``savepoint`` to begin with, the numbers ``from`` and ``until`` of its events, the
            number of ``keys``, the ``backend``, whether time ``ends``, and the directory ``to`` for the savepoint at the end.

    Returns
    -------
        The ``savepoint`` at the end of each, and its results, ``emitted``.

    Raises
    ------
        FlinkError: Flink did not run, or refused a savepoint.
    """
    compiled = _compiled(version, [SOURCES / "streaming"], [classes(version)])
    answers: list[dict[str, Any]] = _asked(version, "StreamedEvents", requests, class_path=[compiled])
    return answers


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
    arguments = [str(files), str(savepoints), str(lines), *([] if savepoint is None else [savepoint.as_uri()])]
    printed = run_job(version, SOURCES / "files", "FileSinkJob", arguments)
    return Path(printed.strip().splitlines()[-1])


def run_job(version: str, sources: Path, main: str, arguments: Sequence[str], class_path: Sequence[Path] = ()) -> str:
    """Compile the Java sources of a folder with our other classes and Flink SQL, run a main class of them, and return its output.

    Args:
        version: the Flink version.
        sources: the folder.
        main: the class's name in the package ``io.stateprocessor.interop``.
        arguments: its command line.
        class_path: jars in addition to :func:`jars`.

    Raises
    ------
        FlinkError: javac refused the sources, or the job failed.
    """
    compiled = _compiled(version, [sources], [classes(version), *sql_class_path(version), *class_path])
    return run_kept(version, main, arguments, [compiled, *class_path])


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
    printed = run_kept(version, "RunningJob", arguments, [compiled], timeout=2 * seconds + 600, tables=False)
    return Path(printed.strip().splitlines()[-1].removeprefix("file:"))


def run_busy_jobs(
    version: str,
    checkpoints: Path,
    savepoints: Path,
    last_savepoints: Path,
    end: Path,
    jobs: Mapping[str, Mapping[str, str]],
    *,
    interval: int,
    keys: int,
    rate: int,
    pause: int,
) -> dict[Path, Path]:
    """Run jobs that keep one checkpoint each until a file ends them: see ``BusyJobs``.

    Args:
        version: the Flink version.
        checkpoints: the directory for checkpoints, and for some savepoints.
        savepoints: the parent directory of further savepoints that are taken meanwhile.
        last_savepoints: the parent directory of the savepoints at the end.
        end: the file that ends them: ``stop`` or ``halt``.
        jobs: the settings of each job.
        interval: milliseconds between checkpoints.
        keys: number of keys of each job.
        rate: records per second of each job.
        pause: milliseconds between savepoints and restores of jobs.

    Returns
    -------
        The newest checkpoint of each job, and a savepoint with the same state.

    Raises
    ------
        FlinkError: a job failed, or the JVM was killed.
    """
    compiled = _compiled(version, [SOURCES / "running"], [classes(version)])
    arguments = [*map(str, (checkpoints, savepoints, last_savepoints, end, interval, keys, rate, pause))]
    arguments += [";".join([name, *(f"{key}={value}" for key, value in settings.items())]) for name, settings in jobs.items()]
    printed = run(version, "BusyJobs", arguments, class_path=[compiled], timeout=3600).split()
    paths = [Path(line.removeprefix("file:")) for line in printed]
    return dict(zip(paths[::2], paths[1::2], strict=True))


def table_classes(version: str) -> Path:
    """Return the jar of our compiled Java sources with the table API, ``java/table``.

    Raises
    ------
        FlinkError: javac refused the sources, or pip could not fetch the table API.
    """
    return _compiled(version, [SOURCES / "table"], [classes(version), *libraries(version)])


def classes(version: str) -> Path:
    """Return the jar of our compiled Java sources for a Flink version.

    ``java/common`` is for every version, ``java/flink1`` and ``java/flink2`` for the two major ones.

    Raises
    ------
        FlinkError: javac refused the sources.
    """
    folders = [SOURCES / "common", STATE_CLASSES, SOURCES / f"flink{version.split('.', maxsplit=1)[0]}"]
    return _compiled(version, folders, by_javac=version == _OF_COMPILER)


def generated_classes(version: str, package: str, sources: Mapping[str, str], class_path: Sequence[Path] = ()) -> Path:
    """Return the jar of compiled Java sources that a test generates: the text of each by the name of its class.

    They are compiled with :func:`classes` and other jars.

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
    return _compiled(version, [folder], [classes(version), *class_path])


def _compiled(version: str, folders: Sequence[Path], class_path: Sequence[Path] = (), *, by_javac: bool = False) -> Path:
    sources = sorted(path for folder in folders for path in folder.rglob("*.java"))
    services = [folder / "META-INF" for folder in folders if (folder / "META-INF").is_dir()]
    digest = hashlib.sha256(CLASSES.encode())
    for source in (*sources, *(path for folder in services for path in sorted(folder.rglob("*")) if path.is_file())):
        digest.update(os.path.relpath(source, SOURCES).encode() + b"\0" + source.read_bytes() + b"\0")

    def compile_all(output: Path) -> None:
        path = _class_path([*jars(version), *class_path])
        found = Path(f"{output}-classes")
        options = ("--release", "17", "-encoding", "UTF-8", "-nowarn", "-proc:none", "-cp", path, "-d", str(found))
        arguments, what = [*options, *map(str, sources)], f"compiling for Flink {version}"
        if by_javac:
            call((tool("javac"), *(f"-J{flag}" for flag in _SHORT_LIVED), *arguments), what, timeout=600)
        else:
            jvms.call(_java(_OF_COMPILER, [], None), _SERVED, "Compile", arguments, what, timeout=600)
        shutil.copy(SOURCES / "log4j2.properties", found)
        for folder in services:
            shutil.copytree(folder, found / folder.name)
        with zipfile.ZipFile(output / CLASSES, "w") as jar:
            for file in sorted(path for path in found.rglob("*") if path.is_file()):
                jar.write(file, file.relative_to(found))

    return made(CACHE / "classes" / f"{version}-{digest.hexdigest()[:12]}", compile_all) / CLASSES


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
) -> str:
    """Run one of our main classes in a JVM of its own and return its output.

    Args:
        version: the Flink version, for example ``"1.20.5"``.
        main: the class's name in the package ``io.stateprocessor.interop``.
        arguments: its command line.
        heap: the JVM's maximum heap in the form of ``-Xmx``.
        timeout: seconds after which the JVM is killed.
        class_path: jars in addition to :func:`jars`.
        instead: a folder below ``java`` whose classes replace ours with the same names.
        short: whether it ends before optimized compilation pays off.

    Raises
    ------
        FlinkError: it ended with an error or not in time; the message holds its output.
    """
    command = _java(version, class_path, instead, heap=heap, short=short)
    return jvms.call_once(command, _SERVED, main, arguments, f"{main} on Flink {version}", timeout)


def run_kept(
    version: str,
    main: str,
    arguments: Sequence[str],
    class_path: Sequence[Path] = (),
    instead: str | None = None,
    timeout: float = 600,
    *,
    tables: bool = True,
) -> str:
    """Run one of our main classes in a JVM that may have run others, and return its output: see :mod:`jvms`.

    Args:
        class_path: jars in addition.
        tables: whether Flink SQL is on the class path. With its classes of Scala, Kryo makes some objects of Java in another way.
        version, main, arguments, instead, timeout: see :func:`run`.

    Raises
    ------
        FlinkError: see :func:`run`.
    """
    command = _java(version, sql_class_path(version) if tables else [], instead)
    return jvms.call(command, _SERVED, main, arguments, f"{main} on Flink {version}", timeout, class_path)


def _java(version: str, class_path: Sequence[Path], instead: str | None, *, heap: str = "1g", short: bool = True) -> list[str]:
    first = [_compiled(version, [SOURCES / instead])] if instead else []
    path = [*first, classes(version), *jars(version), *class_path]
    flags = [*_SHORT_LIVED, *_NOT_VERIFYING, *_IDLE] if short else []
    return [tool("java"), *JVM_FLAGS, *flags, f"-Xmx{heap}", "-Duser.timezone=UTC", "-cp", _class_path(path)]


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
        class_path: jars with more classes.
        timeout: see :func:`run`.

    Returns
    -------
        for each request a dict with ``operators`` (as in expected.json, with every entry Flink found), ``plan`` (the graph of
        the job, as the REST interface shows it), ``savepoint`` (the one written, if asked for), ``snapshots`` (by format, if
        asked for) and ``fired`` (what timers and windows did before it),
        or ``error`` (the exceptions, from the outermost to the cause) and ``trace`` (the same with their frames).

    Raises
    ------
        FlinkError: the JVM failed, other than by Flink refusing a request.
    """
    CACHE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as exchange:
        asked, answered = Path(exchange, "requests.json"), Path(exchange, "answers.json")
        asked.write_text(json.dumps(list(requests)), "utf-8")
        directories = [] if changelogs is None else [str(changelogs.absolute())]
        arguments = [str(asked), str(answered), *directories]
        run_kept(version, "RestoreAndPrint", arguments, class_path, instead, timeout, tables=tables)
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
            default the source), ``anonymous``: without the uid, ``non_parallel`` and ``max_parallelism``.
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


def _class_path(entries: Sequence[Path]) -> str:
    return os.pathsep.join(map(str, entries))


def prepare() -> None:
    """Fetch and compile what most tests need, before the first of them runs.

    Raises
    ------
        FlinkError: pip could not fetch a package, or javac refused the sources.
    """
    for version in VERSIONS:
        table_classes(version)


if __name__ == "__main__":
    prepare()
