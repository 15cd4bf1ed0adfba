"""The package where it is not installed, or can't write: --py-files, packed environments, Spark Connect, read-only systems."""

from __future__ import annotations

import json
import marshal
import os
import shutil
import socket
import subprocess
import sys
import time
import venv
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from importlib.util import MAGIC_NUMBER, cache_from_source, source_hash
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pyspark
import pytest

from state_processor.serializers.kernel.compiler import writable_folder
from tests import spark_jvms
from tests.interop.selection import EVERY_CASE
from tests.packaging.environments import ROOT, SAVEPOINT
from tests.spark_python import LIBRARIES, interpreter
from tests.waiting import end_of

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parent
SPARK_HOME = Path(pyspark.__file__).parent
ON_LOOPBACK = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false"}
REPLACED = "replaced a statically registered data source"


def with_requirements(folder: Path) -> tuple[Path, Path]:
    """Make an environment with the requirements of the package; return its Python, and the directory of its modules."""
    venv.create(folder)
    (own,) = folder.glob("lib/python*/site-packages")
    others = [path for path in sys.path if path.endswith("site-packages")]
    # a line with a path would be an editable package for venv-pack
    (own / "requirements.pth").write_text(f"import sys; sys.path += {others!r}\n")
    return folder / "bin" / "python", own


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with the requirements of the package, but without the package."""
    python, _ = with_requirements(tmp_path_factory.mktemp("bare"))
    missing = subprocess.run(
        [python, "-P", "-c", "import pyspark, numba, state_processor"], capture_output=True, env={}, text=True, check=False
    )
    assert "No module named 'state_processor'" in missing.stderr
    return python


@pytest.fixture(scope="module")
def forking(bare: Path) -> Iterator[Path]:
    """The same for Spark's workers, which find the requirements imported."""
    with interpreter(bare, LIBRARIES) as program:
        yield Path(program)


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python without packages."""
    folder = tmp_path_factory.mktemp("empty")
    venv.create(folder)
    assert not list(folder.glob("lib/python*/site-packages/*"))
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def unpacked(packages: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the modules of the wheel, compiled once for all tests, as ``compileall`` does it with unchecked hashes."""
    folder = tmp_path_factory.mktemp("unpacked") / "modules"
    with ZipFile(packages[0]) as wheel:
        wheel.extractall(folder)
    for module in folder.rglob("*.py"):
        here = SourceFileLoader(module.stem, str(ROOT / module.relative_to(folder)))
        assert module.read_bytes() == here.get_data(here.path)
        compiled = Path(cache_from_source(str(module)))
        compiled.parent.mkdir(exist_ok=True)
        header = MAGIC_NUMBER + (1).to_bytes(4, "little") + source_hash(module.read_bytes())
        compiled.write_bytes(header + marshal.dumps(here.get_code(module.stem)))  # this checkout has most of them compiled
    return folder


@pytest.fixture(scope="module")
def compiled(packages: tuple[Path, Path], unpacked: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel with its modules compiled, too: Python keeps no compiled modules of an archive, so that each process compiles."""
    archive = tmp_path_factory.mktemp("compiled") / packages[0].name
    shutil.copy(packages[0], archive)
    with ZipFile(archive, "a") as wheel:
        for module in unpacked.rglob("*.py"):
            name = module.relative_to(unpacked).with_suffix(".pyc")
            wheel.write(cache_from_source(str(module)), str(name))
    return archive


def settings(python: Path, driver: Path, **more: str) -> dict[str, str]:
    clean = {n: v for n, v in os.environ.items() if not n.startswith(("PYTHON", "PYSPARK", "VIRTUAL_ENV", "SPARK"))}
    of_spark = {"SPARK_HOME": str(SPARK_HOME), "SPARK_SCALA_VERSION": "2.13", "SPARK_LOCAL_IP": "127.0.0.1"}
    of_spark |= {name: os.environ[name] for name in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS")}
    return clean | of_spark | {"PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": str(driver)} | more


def submit(*arguments: str, **configuration: str) -> list[str]:
    # Spark hands SPARK_SUBMIT_OPTS to the driver alone
    given = ON_LOOPBACK | {"spark.executor.extraJavaOptions": spark_jvms.options()} | configuration
    pairs = [f"--conf={name}={value}" for name, value in given.items()]
    return [str(SPARK_HOME / "bin" / "spark-submit"), *pairs, *arguments]


def program(savepoint: Path | str, target: Path | str, counts: int) -> list[str]:
    """The program of all deployments, and its arguments. Filters that Spark pushes down are counted in a few deployments."""
    return [str(FOLDER / "deployed.py"), str(savepoint), str(target), str(3 if EVERY_CASE else counts)]


def found(done: subprocess.CompletedProcess[str], counts: int) -> dict[str, Any]:
    assert not done.returncode, done.stdout + done.stderr[-8000:]
    answer: dict[str, Any] = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))
    assert (answer["patched"], answer["counts"]) == (4950, [50, 1, 50][: 3 if EVERY_CASE else counts])
    assert answer["message"].startswith("no operator 'nobody' in this snapshot.")
    assert answer["damage"].startswith("state 'total' of operator 'orders', subtask ")
    assert "\n" not in answer["damage"]
    return answer


@pytest.mark.spark
@pytest.mark.parametrize(("master", "suffix", "counts"), [("local-cluster[1,1,1024]", ".whl", 1), ("local[2]", ".zip", 3)])
def test_py_files(master: str, suffix: str, counts: int, compiled: Path, bare: Path, forking: Path, tmp_path: Path) -> None:
    archive = shutil.copy(compiled, (tmp_path / compiled.stem).with_suffix(suffix))
    command = submit("--master", master, "--py-files", str(archive), *program(SAVEPOINT, tmp_path / "savepoint", counts))
    done = subprocess.run(command, capture_output=True, text=True, env=settings(forking, bare), cwd=tmp_path, timeout=300)
    answer = found(done, counts)
    assert archive.name in answer["module"]
    assert archive.stem in answer["worker"]  # Spark renames wheels


@pytest.mark.spark
def test_packed_environment(unpacked: Path, empty: Path, tmp_path: Path) -> None:
    """On a standalone cluster with a bare worker; its Python process runs in the unpacked archive."""
    python, own = with_requirements(tmp_path / "environment")
    shutil.copytree(unpacked, own, dirs_exist_ok=True)
    pack = [sys.executable, "-m", "venv_pack", "--quiet", "--prefix", str(python.parents[1]), "--output", "environment.tar.gz"]
    subprocess.run(pack, check=True, cwd=tmp_path)
    conf = {"spark.pyspark.python": "./environment/bin/python"}
    where = ["--master", "local-cluster[1,1,1024]", "--archives", "environment.tar.gz#environment"]
    command = submit(*where, *program(SAVEPOINT, tmp_path / "savepoint", 1), **conf)
    environment = settings(empty, Path("environment/bin/python"))
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=300)
    answer = found(done, 1)
    assert answer["module"].startswith(str(tmp_path / "environment"))
    assert "/environment/lib/" in answer["worker"]
    assert not answer["worker"].startswith(str(tmp_path))


@pytest.mark.spark
def test_the_formats_are_found_and_not_replaced(unpacked: Path, bare: Path, forking: Path, tmp_path: Path) -> None:
    arguments = program(SAVEPOINT, tmp_path / "savepoint", 1)
    command = submit("--master", "local[1]", *arguments, **{"spark.log.level": "WARN"})
    environment = settings(forking, bare, PYTHONPATH=str(unpacked))
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=300)
    assert found(done, 1)["module"].startswith(str(unpacked))
    assert REPLACED not in done.stderr


@pytest.fixture
def connect_server(unpacked: Path, forking: Path, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """The URL of a server of Spark Connect in a folder of its own, and its log."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder, log = tmp_path / "server", tmp_path / "server.log"
    folder.mkdir()
    binding = {"spark.connect.grpc.binding.address": "127.0.0.1", "spark.connect.grpc.binding.port": str(port)}
    server = submit("--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal", **binding)
    environment = settings(forking, forking, PYTHONPATH=str(unpacked))
    with log.open("w") as output:
        process = subprocess.Popen(server, stdout=output, stderr=output, env=environment, cwd=folder)
    try:
        deadline = time.monotonic() + 120
        while socket.socket().connect_ex(("127.0.0.1", port)):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.2)
        yield f"sc://127.0.0.1:{port}", log
    finally:
        process.terminate()
        end_of(process)


@pytest.mark.spark
def test_connect_with_client_and_server_in_different_folders(
    connect_server: tuple[str, Path], bare: Path, tmp_path: Path
) -> None:
    url, log = connect_server
    client = tmp_path / "client"
    shutil.copytree(SAVEPOINT, client / "savepoint")
    command = [str(bare), *program("savepoint", "new", 3)]
    environment = settings(bare, bare, PYTHONPATH=str(ROOT), SPARK_REMOTE=url)
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=client, timeout=300)
    assert found(done, 3)["module"].startswith(str(ROOT))
    assert (client / "new" / "_metadata").is_file()
    assert REPLACED not in log.read_text()


def test_read_only_installation_without_a_home(unpacked: Path, bare: Path, tmp_path: Path) -> None:
    home, scratch, kernels = tmp_path / "home", tmp_path / "scratch", writable_folder()
    home.mkdir(mode=0o555)
    assert kernels is not None
    private = scratch / f"state-processor-kernels-{os.getuid()}"
    private.mkdir(mode=0o700, parents=True)
    # Compiling them takes long, and is tested elsewhere. Other processes may be compiling now.
    shutil.copytree(kernels, private / kernels.name, ignore=shutil.ignore_patterns("*.new"))
    modules = shutil.copytree(unpacked, tmp_path / "modules")
    for folder, _, names in os.walk(modules):
        for path in (folder, *(os.path.join(folder, name) for name in names)):
            os.chmod(path, os.stat(path).st_mode & ~0o222)
    # root may write anywhere, unless it gives up that right
    unprivileged = ["setpriv", "--bounding-set=-dac_override"] if not os.getuid() else []
    command = [*unprivileged, str(bare), str(FOLDER / "first_steps.py"), str(SAVEPOINT), str(tmp_path / "new"), "arrow"]
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "TMPDIR": str(scratch), "PYTHONPATH": str(modules)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)
    assert not done.returncode, done.stderr
    assert json.loads(done.stdout)["totals"] == [["amelia", 3950], ["anders", 14430]]
    assert not list(home.iterdir())
