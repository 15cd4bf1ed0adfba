"""Executes the notebooks: ``python -m tests.notebooks.notebook_runs [NAME ...]`` stores their outputs.

Every notebook has its own kernel, a fork of a process that has imported the same modules. Notebooks share one JVM for Spark,
because its start takes longer than a notebook. They also share the classes of the job that restores savepoints.
"""

from __future__ import annotations

import os
import re
import runpy
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any
from unittest.mock import patch

import nbformat
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient
from nbformat import NotebookNode
from py4j.clientserver import ClientServer
from pyspark.java_gateway import launch_gateway

from tests.interop import flink_jars
from tests.interop.selection import EVERY_CASE
from tests.spark_python import interpreter
from tests.waiting import end_of

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = ROOT / "notebooks"

PLOT = "image/png"
FLINK = "2.3.0"
"""The Flink that restores savepoints of notebooks."""

_CELL_SECONDS = 300
_IMPORTED = (
    *("ipykernel.ipkernel", "ipykernel.kernelapp", "ipykernel.zmqshell", "pandas", "pyspark.sql.session"),
    *(f"state_processor.{name}" for name in ("arrow", "reader", "spark.datasource", "writer")),
)
"""What kernels find imported."""
_METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
_USUAL = re.compile(
    r"WARNING: Using incubator modules: jdk\.incubator\.vector"
    r"|Using Spark's default log4j profile: .*"
    r"|Setting default log level to .*"
    r"|To adjust logging level use .*"
    r"|.* WARN NativeCodeLoader: Unable to load native-hadoop library .*"
    # The first process that needs a kernel on this machine.
    r"|compiling kernels, which takes some seconds; they are kept in .*"
    # Notebook 5 reads Avro values with another schema than they were written with, which no kernel does.
    r"|values of type AVRO_GENERIC<com\.teashop\.Visit> in column value are decoded one by one in Python, not by the kernel"
    # Notebook 6 loads pickles.
    r"|values of type PICKLE<.*> in column value are decoded one by one in Python, not by the kernel"
    # Notebook 10 has streams with state.
    r"|.* WARN MicroBatchExecution: Disabling AQE since AQE is not supported in stateful workloads\."
    r"|.* WARN TransformWithStateInPySparkStateServer: No more data to read from the socket"
    r"|(Starting )?Streaming TransformWithStateInPandas Python worker.*"
    # Notebook 8 removes checkpoints.
    r"|checkpoint 6 in .* is gone: the micro-batch has all values of checkpoint 8 in .*"
)
"""What Spark logs at every start, and what notebooks are known to log."""


def names() -> list[str]:
    """The notebooks' names, in their order."""
    return sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb"))


def load(name: str) -> NotebookNode:
    """A stored notebook."""
    return nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=nbformat.NO_CONVERT)


class _Client(NotebookClient):
    """Runs a notebook in a kernel that a given program starts."""

    def __init__(self, notebook: NotebookNode, *, python: str, **settings: Any) -> None:
        super().__init__(notebook, **settings)
        self._python = python

    def create_kernel_manager(self) -> KernelManager:
        manager = super().create_kernel_manager()
        assert manager.kernel_spec is not None
        manager.kernel_spec.argv[0] = self._python
        return manager


class Kernels:
    """Runs notebooks; output of Spark and of the kernels goes to files in ``logs``."""

    def __init__(self, python: str, environment: dict[str, str], logs: Path, gateway: ClientServer) -> None:
        self._python = python
        self._environment = environment
        self._logs = logs
        self._gateway = gateway

    def execute(self, name: str) -> NotebookNode:
        """A notebook with the outputs of a run, in stored form.

        Raises
        ------
            nbclient.exceptions.CellExecutionError: a cell failed; the message shows it.
        """
        notebook = load(name)
        # By default a kernel takes what other processes, such as the JVM, write to its terminal for output of a cell.
        # A notebook starts Spark's workers with its own interpreter: it is told that this is the one of the tests.
        python = f"import sys; sys.executable = {self._environment['PYSPARK_PYTHON']!r}"
        if "restore" in name:
            python += f"; import minicluster, types; minicluster._classes = lambda: types.SimpleNamespace(name={self._classes!r})"
        if EVERY_CASE:
            python += f"; sys.path.append({str(ROOT)!r}); from tests import both_engines; both_engines.pair_all_writes()"
        client = _Client(
            notebook,
            python=self._python,
            timeout=_CELL_SECONDS,
            kernel_name="python3",
            record_timing=False,
            coalesce_streams=True,
            resources={"metadata": {"path": str(NOTEBOOKS)}},
            extra_arguments=[
                "--IPKernelApp.capture_fd_output=False",
                f"--IPKernelApp.exec_lines={python}",
                f"--IPKernelApp.parent_handle={os.getpid()}",  # a kernel that hangs ends after the process that forked it
            ],
        )
        with (self._logs / "kernels.log").open("ab") as log:
            try:
                client.execute(env=self._environment, stderr=log)
            finally:
                self._stop_spark()
        return stored_form(notebook)

    @cached_property
    def _classes(self) -> str:
        """The directory of the classes of the job that restores savepoints, compiled as a notebook does it."""
        with patch.dict(os.environ, self._environment):
            self._compiled = runpy.run_path(str(NOTEBOOKS / "minicluster.py"))["_classes"]()  # it exists as long as this object
        return str(self._compiled.name)

    def _stop_spark(self) -> None:
        """Stop the session of a notebook that did not get so far; the JVM can't have two."""
        session = self._gateway.jvm.org.apache.spark.sql.classic.SparkSession.getDefaultSession()
        if session.isDefined():
            session.get().stop()

    def complaints(self) -> list[str]:
        """What Spark and its workers have said beyond the usual."""
        lines = (self._logs / "spark.log").read_text("utf-8").splitlines()
        return [line for line in lines if line.strip() and not _USUAL.fullmatch(line)]


@contextmanager
def kernels(logs: Path, python: str) -> Iterator[Kernels]:
    """Return a runner of notebooks with a JVM; ``logs`` is a directory, ``python`` the program of Spark's workers."""
    environment = os.environ | {"PYSPARK_PYTHON": python, "SPARK_LOCAL_IP": "127.0.0.1"}
    environment["FLINK_HOME"] = str(flink_jars.distribution(FLINK))
    before = dict(os.environ)
    os.environ.update(environment)  # the JVM inherits it
    try:
        with (logs / "spark.log").open("wb") as log:
            gateway = launch_gateway(popen_kwargs={"cwd": NOTEBOOKS, "stderr": log})
    finally:
        os.environ.clear()
        os.environ.update(before)
    parameters = gateway.java_parameters
    shared = {"PYSPARK_GATEWAY_PORT": str(parameters.port), "PYSPARK_GATEWAY_SECRET": parameters.auth_token}
    try:
        with interpreter(modules=_IMPORTED) as forking:
            yield Kernels(forking, environment | shared, logs, gateway)
    finally:
        gateway.shutdown()
        gateway.proc.stdin.close()
        end_of(gateway.proc)


def stored_form(notebook: NotebookNode) -> NotebookNode:
    """Keep only reproducible outputs of a notebook, and plots: tables once as HTML, without facts about the machine."""
    notebook.metadata = nbformat.from_dict(_METADATA)
    for cell in notebook.cells:
        cell.metadata = NotebookNode()
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            if "text/html" in data or PLOT in data:
                data.pop("text/plain", None)
    return notebook


def main(chosen: list[str]) -> None:
    """Execute notebooks, all by default, and store their outputs."""
    with tempfile.TemporaryDirectory() as directory, interpreter() as python, kernels(Path(directory), python) as running:
        for name in chosen or names():
            nbformat.write(running.execute(name), NOTEBOOKS / f"{name}.ipynb")
            print(f"notebooks/{name}.ipynb")
        for line in running.complaints():
            print(line, file=sys.stderr)


if __name__ == "__main__":
    unknown = set(sys.argv[1:]) - set(names())
    if unknown:
        sys.exit(f"no such notebook: {', '.join(sorted(unknown))}; there are {', '.join(names())}")
    main(sys.argv[1:])
