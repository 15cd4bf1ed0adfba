"""Compilation of SQL to a plan, by the planner of an installed Flink. This module alone runs Java."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import Final

from state_processor.errors import MissingFileError, OptionError

_TOKEN: Final = re.compile(r"'(?:[^']|'')*'|`(?:[^`]|``)*`|\"[^\"]*\"|--[^\n]*|/\*.*?\*/|;", re.DOTALL)
_SKIPPED: Final = re.compile(r"(?:\s+|--[^\n]*(?:\n|$)|/\*.*?\*/)*", re.DOTALL)
_SET: Final = re.compile(r"(EXECUTE\s+STATEMENT\s+SET\s+BEGIN|BEGIN\s+STATEMENT\s+SET|STATEMENT\s+SET\s+BEGIN)\b", re.IGNORECASE)
_INSERT: Final = re.compile(r"(EXECUTE\s+)?INSERT\b", re.IGNORECASE)
_COMPILE: Final = re.compile(r"COMPILE\s+(AND\s+EXECUTE\s+)?PLAN\b.*?\bFOR\s+", re.IGNORECASE | re.DOTALL)
_END: Final = re.compile(r"END\s*", re.IGNORECASE)
_SETTING: Final = re.compile(r"SET\s+'((?:[^']|'')+)'\s*=\s*'((?:[^']|'')*)'", re.IGNORECASE)
_DEFINING: Final = re.compile(
    r"(CREATE|SET\s+'|USE|DROP|ALTER|ADD\s+JAR|REMOVE\s+JAR|LOAD\s+MODULE|UNLOAD\s+MODULE)\b", re.IGNORECASE
)
_FILLING: Final = re.compile(
    r"(CREATE|REPLACE)(\s+OR\s+REPLACE)?\s+(TEMPORARY\s+)?TABLE\b.*\bAS\s+(SELECT|WITH)\b", re.IGNORECASE | re.DOTALL
)
"""A statement that creates a table from a query starts a job."""
_SHOWN_STATEMENT: Final = 60


def planned_statements(sql: str, plan: str) -> list[str]:
    """Return the statements that compile the query of a script into a file.

    ``sql``: statements that define tables, views and options, and one ``INSERT`` or one statement set. ``plan``: the path of the
    file.
    """
    target = plan.replace("'", "''")
    defining: list[str] = []
    queries: list[str] = []
    together: list[str] | None = None
    for statement in _statements(sql):
        text = _COMPILE.sub("", statement, count=1) if _COMPILE.match(statement) else statement
        if together is not None:
            if _END.fullmatch(text):
                queries.append(f"STATEMENT SET BEGIN\n{''.join(f'{statement};{chr(10)}' for statement in together)}END")
                together = None
            else:
                together.append(text)
        elif (begins := _SET.match(text)) is not None:
            first = _bare(text[begins.end() :])
            together = [first] if first else []
        elif (insert := _INSERT.match(text)) is not None:
            queries.append(f"INSERT{text[insert.end() :]}")
        elif _DEFINING.match(text) and not _FILLING.match(text):
            defining.append(text)
        else:
            raise OptionError(f"sql: expected statements that define tables and one INSERT, found {text[:_SHOWN_STATEMENT]!r}")
    if together is not None:
        raise OptionError("sql: expected END after the statement set, found the end of the text")
    if len(queries) != 1:
        raise OptionError(
            f"sql: expected one INSERT or one statement set, found {len(queries)}; each INSERT outside of a statement set is a "
            "job of its own"
        )
    return [*defining, f"COMPILE PLAN '{target}' FOR {queries[0]}"]


def setting(statement: str) -> tuple[str, str] | None:
    """Return the name and the value that a statement sets; ``None`` for other statements."""
    match = _SETTING.fullmatch(statement)
    return None if match is None else (match[1].replace("''", "'"), match[2].replace("''", "'"))


def _statements(sql: str) -> Iterator[str]:
    """Yield the statements between semicolons outside of texts, names and comments, without comments before them."""
    start = 0
    for token in _TOKEN.finditer(sql):
        if token[0] == ";":
            if text := _bare(sql[start : token.start()]):
                yield text
            start = token.end()
    if text := _bare(sql[start:]):
        yield text


def _bare(text: str) -> str:
    skipped = _SKIPPED.match(text)
    return text[skipped.end() if skipped else 0 :].strip()


_VERSION: Final = re.compile(r"\d+\.\d+(\.\d+)?")
_DIST: Final = re.compile(r"flink-dist(?:_2\.\d+)?-(\d+\.\d+\.\d+.*)\.jar")
_OPENED: Final = ("java.lang", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.text", "java.time", "java.util")
_TIMEOUT: Final = 300
_QUICK: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")  # the JVM ends before more of it pays off
_NEEDED: Final = ("flink-dist", "flink-table-planner", "flink-table-runtime", "flink-table-api-java")
_SHOWN: Final = 3000


def plan_from_sql(
    sql: str,
    *,
    flink: str | PathLike[str] | None = None,
    jars: Sequence[str | PathLike[str]] = (),
    options: Mapping[str, str] | None = None,
    timeout: float = _TIMEOUT,
) -> str:
    """Compile SQL to a plan, as ``COMPILE PLAN`` does. No job starts.

    Parameters
    ----------
    sql
        The statements that create the tables, and one ``INSERT`` or one statement set, as they were submitted.
    flink
        The directory of a Flink distribution, or the version that has to be installed, such as ``"1.20"``. By default the
        directory in the environment variable ``FLINK_HOME``, or the one of the package ``apache-flink-libraries``, which
        the extra ``planner`` and PyFlink install.
    jars
        Jars of the connectors and formats of the tables.
    options
        Options of the job that are not in the text, such as ``{"table.exec.mini-batch.enabled": "true"}``. They are set after the
        options of the text.
    timeout
        The maximal number of seconds.

    Returns
    -------
    str
        The JSON of the plan; it is accepted wherever a plan is.

    Raises
    ------
    OptionError
        If Flink or Java is not installed, Flink has another version, or Flink refuses a statement.
    MissingFileError
        If a jar does not exist.
    """
    distribution = FlinkDistribution.find(flink)
    files = list(map(Path, jars))
    for file in files:
        if not file.is_file():
            raise MissingFileError(f"jars: {file} does not exist")
    with tempfile.TemporaryDirectory(prefix="plan-") as work:
        return _compiled(sql, distribution, files, options or {}, Path(work), timeout)


def _compiled(
    sql: str, distribution: FlinkDistribution, jars: Sequence[Path], options: Mapping[str, str], work: Path, timeout: float
) -> str:
    plan, program = work / "plan.json", work / "CompilePlan.java"
    arguments: list[str] = []
    *defining, query = planned_statements(sql, str(plan))
    statements = [*(setting(statement) or (statement,) for statement in defining), *options.items(), (query,)]
    for number, statement in enumerate(statements):
        for text in statement:
            file = work / f"{number}-{len(arguments)}.txt"
            file.write_text(text, "utf-8")
            arguments.append(str(file))
        arguments.append("")
    program.write_text(_PROGRAM, "utf-8")
    opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
    class_path = os.pathsep.join(map(str, [*distribution.jars, *jars]))
    command = [_java(), *opened, *_QUICK, "-cp", class_path, str(program), *arguments]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            cwd=work,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        raise OptionError(f"plan_from_sql: Flink did not answer within {timeout:g} seconds") from None
    if not plan.is_file():
        raise OptionError(f"plan_from_sql: Flink {distribution.version} did not compile the SQL: {_reason(done)}")
    return plan.read_text("utf-8")


_PROGRAM: Final = """
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;

public final class CompilePlan {
    public static void main(String[] files) throws Exception {
        TableEnvironment tables = TableEnvironment.create(EnvironmentSettings.newInstance().inStreamingMode().build());
        List<String> texts = new ArrayList<>();
        for (String file : files) {
            if (!file.isEmpty()) {
                texts.add(Files.readString(Path.of(file)));
            } else if (texts.size() == 2) {
                tables.getConfig().set(texts.get(0), texts.get(1));
                texts.clear();
            } else {
                tables.executeSql(texts.get(0));
                texts.clear();
            }
        }
        System.exit(0);
    }
}
"""
"""Statements are files: one file, or a name and a value for a setting, and an empty argument after each."""


def _reason(done: subprocess.CompletedProcess[str]) -> str:
    """Return the messages of Flink's errors."""
    if "jdk.compiler not found" in done.stderr:
        return f"expected a JDK of version 11 or newer, with a compiler, found {_java()}; set JAVA_HOME to a JDK"
    lines = list(map(str.strip, f"{done.stdout}\n{done.stderr}".splitlines()))
    messages = [line for line in lines if line and not line.startswith(("at ", "...", "WARNING:", "SLF4J"))]
    return "\n".join(messages)[-_SHOWN:]


@dataclass(frozen=True)
class FlinkDistribution:
    """An installed Flink."""

    directory: Path  # the directory with ``lib``
    version: str

    @classmethod
    def find(cls, flink: str | PathLike[str] | None) -> FlinkDistribution:
        """Return the distribution in a directory, or the installed one."""
        requested = None if flink is None or _VERSION.fullmatch(str(flink)) is None else str(flink)
        directory = _installed() if flink is None or requested is not None else Path(flink)
        for name in _NEEDED:
            if not any(directory.glob(f"lib/{name}*.jar")):
                raise OptionError(
                    f"plan_from_sql: expected a Flink distribution with lib/{name}-….jar, found none in {directory}; "
                    "pass the directory of a distribution as flink"
                )
        versions = sorted(match[1] for path in directory.glob("lib/*.jar") if (match := _DIST.fullmatch(path.name)))
        version = versions[0] if versions else "of an unknown version"
        if requested is not None and version != requested and not version.startswith(f"{requested}."):
            raise OptionError(
                f"plan_from_sql: expected Flink {requested}, found Flink {version} in {directory}; install "
                f"'apache-flink-libraries=={requested}.*', or pass the directory of a distribution as flink"
            )
        return cls(directory, version)

    @property
    def jars(self) -> Iterator[Path]:
        """The jars of the class path."""
        yield from sorted(self.directory.glob("lib/*.jar"))


def _installed() -> Path:
    home = os.environ.get("FLINK_HOME")
    if home:
        return Path(home)
    spec = find_spec("pyflink")
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        if (Path(place) / "lib").is_dir():
            return Path(place)
    raise OptionError(
        "plan_from_sql: expected an installed Flink, found neither FLINK_HOME nor the package apache-flink-libraries; "
        "pip install 'state-processor[planner]', or pass the directory of a distribution as flink"
    )


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    program = shutil.which("java", path=f"{home}/bin") if home else None
    program = program or shutil.which("java")
    if program is None:
        raise OptionError("plan_from_sql: expected a JDK of version 11 or newer, found no java; install one, or set JAVA_HOME")
    return program
