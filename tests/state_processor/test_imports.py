"""Imports of a process, and behaviour without a package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from state_processor.cli import _MODULES
from tests.state_processor.samples import FIXTURES, ORDERS_PATH

READ = f"import state_processor as sp; sp.arrow.read_state({ORDERS_PATH!r}, 'orders', 'total').read_all()"


def printed(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


OTHERS = {
    *("pyspark", "pandas", "numba", "polars", "duckdb", "pyarrow.dataset", "pyarrow.compute", "pyarrow.fs", "numpy.ma"),
    *("ssl", "javaobj", "email", "html", "importlib.metadata", "tempfile", "zoneinfo", "calendar"),
}
"""Modules of others that a small read does not use."""

OURS = (
    *(".connectors", ".differences", ".backends.write", ".backends.analysis", ".applications", ".catalog", ".key_lookup"),
    *(
        ".kryo.serializer",
        ".serializers.avro",
        ".plugins",
        ".kernel.encode.loop",
        ".evolution.resolution",
        ".table.rowdata",
    ),
    *(".types.flink_types", ".changelog", ".raw_timers", ".checkpoint_order", ".key_contents", ".object_parser"),
)
"""Parts of the names of our modules that a small read does not use."""


@pytest.mark.parametrize(
    ("snapshot", "formats"),
    [("orders-rocksdb-canonical", ()), ("orders-hashmap-native", (".heap",)), ("orders-rocksdb-native", (".rocksdb", ".sst"))],
)
def test_a_read_of_keyed_state_imports_what_it_uses(snapshot: str, formats: tuple[str, ...]) -> None:
    path = str(FIXTURES / "2.3.0" / snapshot / "savepoint")
    modules = printed(READ.replace(ORDERS_PATH, path) + "; import sys; print(*sys.modules)").split()
    assert [name for name in modules if name in OTHERS] == []
    unused = [*OURS, *(name for name in (".heap", ".rocksdb", ".sst") if name not in formats)]
    ours = [name for name in modules if name.startswith("state_processor.")]
    assert [name for name in ours if any(part in name for part in unused)] == []


COMMAND = """
import sys
from state_processor.cli import main
sys.argv = ["state-processor", {command!r}, {path!r}, *{arguments!r}]
main()
print("modules", *sys.modules)
"""


@pytest.mark.parametrize(("command", "arguments"), [("show", ["--uid", "orders", "--state", "total"]), ("states", [])])
def test_a_command_imports_what_it_uses(command: str, arguments: list[str]) -> None:
    modules = printed(COMMAND.format(command=command, path=ORDERS_PATH, arguments=arguments)).rpartition("modules")[2].split()
    assert [name for name in modules if name in ("pyspark", "numba", "duckdb", "starlette")] == []
    assert {name.removeprefix("state_processor.") for name in modules} & set(_MODULES.values()) == {"commands.showing"}


PATCH = """
import state_processor as sp, sys
writer = sp.arrow.SavepointWriter.from_existing({source!r})
rows = [{{"key": f"k{{i}}", "value": i}} for i in range(10)]
writer.update_keyed_state("orders", "total", rows).write({target!r}, **{options!r})
print(*sys.modules)
"""


@pytest.mark.parametrize(
    "options", [{"format": "canonical"}, {"format": "native", "backend": "rocksdb"}], ids=["canonical", "native"]
)
def test_a_small_patch_does_not_import_the_compiler(options: dict[str, str], tmp_path: Path) -> None:
    source = FIXTURES / "2.3.0" / f"orders-rocksdb-{options['format']}" / "savepoint"
    modules = printed(PATCH.format(source=str(source), target=str(tmp_path / "patched"), options=options)).split()
    assert [name for name in modules if name in ("pyspark", "numba")] == []
    assert [name for name in modules if name.startswith(("state_processor.applications", "state_processor.plugins"))] == []


def test_the_package_alone_imports_nothing_else() -> None:
    modules = printed("import state_processor, sys; print(*sys.modules)").split()
    assert [name for name in modules if name.startswith("state_processor")] == ["state_processor"]
    assert "pyarrow" not in modules


WITHOUT_EXTRAS = """
import sys

class Absent:
    names = "pyspark pandas shtab matplotlib polars duckdb deltalake pyiceberg google yaml starlette uvicorn tqdm mcp".split()

    def find_spec(self, name, *_):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent())
"""


def test_the_help_of_all_commands_needs_no_extra() -> None:
    code = "from state_processor.cli import command_parser; print(command_parser(None).format_help())"
    assert "copy-operator" in printed(WITHOUT_EXTRAS + code)


ATTEMPTS = """
import os, sys
sys.modules["pyspark"] = sys.modules["pyspark.errors"] = None
{read}
for attempt in {attempts!r}:
    if os.fork() == 0:
        try:
            eval(attempt)
        except sp.OptionError as error:
            print(attempt, error, sep=": ", flush=True)
        os._exit(0)
    os.wait()
"""
"""Each attempt has a process of its own. The process has read a state."""


def test_without_spark() -> None:
    names = [f"sp.{name}" for name in ("SavepointReader", "SavepointWriter", "create_views", "diff", "register")]
    calls = ["sp.open(sp.sample_savepoint(), object())", "sp.StreamingCheckpoint(object(), '/')"]
    lines = printed(ATTEMPTS.format(read=READ, attempts=names + calls)).splitlines()
    assert len(lines) == len(names + calls)
    message = "uses of Spark need the package pyspark: pip install 'state-processor[spark]'"
    for name, line in zip(names, lines, strict=False):
        assert line.startswith(f"{name}: {name} and other {message}")
    for call, line in zip(calls, lines[len(names) :], strict=True):
        assert line.startswith(f"{call}: ")
        assert message in line


def test_public_names_are_listed_and_nothing_else() -> None:
    code = "import state_processor as sp; print(*dir(sp)); print(*dir(sp.arrow)); print(*sp.arrow.__all__)"
    ours, arrow, public = (line.split() for line in printed(code).splitlines())
    assert {"SavepointReader", "arrow", "find", "__version__"} <= set(ours)
    assert [name for name in ours if name in ("gc", "ast", "Any", "TYPE_CHECKING", "annotations")] == []
    assert arrow == public
