"""Imports of a process, and behaviour without a package."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.state_processor.samples import ORDERS_PATH

READ = f"import state_processor as sp; sp.arrow.read_state({ORDERS_PATH!r}, 'orders', 'total').read_all()"


def printed(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def test_a_read_of_keyed_state_imports_what_it_uses() -> None:
    modules = printed(f"{READ}; import sys; print(*sys.modules)").split()
    unused = ("pyspark", "pandas", "polars", "duckdb", "pyarrow.dataset")
    assert [name for name in modules if name in unused] == []
    assert [name for name in modules if ".connectors" in name or name.endswith(".differences")] == []


def test_the_package_alone_imports_nothing_else() -> None:
    modules = printed("import state_processor, sys; print(*sys.modules)").split()
    assert [name for name in modules if name.startswith("state_processor")] == ["state_processor"]
    assert "pyarrow" not in modules


@pytest.mark.parametrize("name", ["SavepointReader", "SavepointWriter", "create_views", "diff", "register"])
def test_without_spark(name: str) -> None:
    without = "import sys; sys.modules['pyspark'] = None"
    attempt = f"{READ}\ntry: sp.{name}\nexcept sp.OptionError as error: print(error)"
    assert f"{name} needs Spark, which is not installed: pip install pyspark" in printed(f"{without}\n{attempt}")
