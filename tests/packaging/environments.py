"""Virtual environments with nothing in them but the project, as wheel or sdist, and the versions of packages that it declares.

``python -m tests.packaging.environments`` runs the first steps with every Python of this machine, with every Spark and without.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import cache_from_source
from itertools import product
from pathlib import Path
from typing import Any

from build import ProjectBuilder
from build.env import DefaultIsolatedEnv
from packaging.requirements import Requirement
from pyproject_hooks import quiet_subprocess_runner

from tests import spark_jvms
from tests.spark_python import PACKAGE
from tests.spark_python import interpreter as spark_python

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "environments"
SAVEPOINT = ROOT / "tests" / "fixtures" / "2.3.0" / "orders-rocksdb-canonical" / "savepoint"
SPARKS = ("4.0", "4.1", "4.2", "4.3")
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
_STORED = "--config-settings=--build-option=--compression=stored"
"""For pyspark: pip builds its wheel, with 400 MB of compressed jars, and unpacks it."""
_LEFT_OUT = (".git", ".venv", ".cache", "build", "dist", "*.egg-info", "__pycache__")


@dataclass(frozen=True)
class Environment:
    """An interpreter, and pinned packages in addition to the project's requirements and those of an extra.

    With ``links``, the newest versions: packages in the environment of this process are not unpacked again.
    """

    name: str
    python: str
    pins: tuple[str, ...] = ()
    links: bool = False
    extra: str = "spark"

    @property
    def interpreter(self) -> Path:
        return CACHE / self.name / "bin" / "python"

    @property
    def modules(self) -> Path:
        """The directory of the installed packages."""
        (found,) = (CACHE / self.name).glob("lib/python*/site-packages")
        return found

    def install(self, package: Path) -> None:
        """Install a wheel or sdist of the project, with all that it requires."""
        pip = (sys.executable, "-m", "pip", "--python", str(self.interpreter), "--quiet", "--disable-pip-version-check")
        if self.interpreter.exists():
            _run(*pip, "uninstall", "--yes", "state-processor")  # the version is the same, the content is not
        else:
            _run(self.python, "-m", "venv", "--clear", "--without-pip", str(CACHE / self.name))
            if self.links:
                link_requirements(self.modules, self.extra)
        how = ("--upgrade", "--upgrade-strategy", "eager") if self.links else (_STORED,)
        wanted = f"{package}[{self.extra}]" if self.extra else str(package)
        # uncompiled: most of the modules are never imported
        _run(*pip, "install", "--no-compile", *how, wanted, *self.pins)

    def first_steps(self, folder: Path, how: str) -> dict[str, Any]:
        """Run the first steps in a folder. Python finds modules there before installed modules."""
        program = Path(__file__).with_name("first_steps.py")
        code = "import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
        settings = {n: v for n, v in os.environ.items() if not n.startswith(("PYTHON", "PYSPARK", "VIRTUAL_ENV"))}
        with tempfile.TemporaryDirectory() as target, ExitStack() as stack:
            if how == "spark":
                settings["SPARK_SUBMIT_OPTS"] = f"{spark_jvms.options()} -Dspark.ui.enabled=false"
                settings["PYSPARK_PYTHON"] = stack.enter_context(spark_python(self.interpreter, PACKAGE, folder))
            command = (str(self.interpreter), "-c", code, str(program), str(SAVEPOINT), target, how)
            done = _run(*command, folder=folder, settings=settings)
        found: dict[str, Any] = json.loads(done.splitlines()[-1])
        return found


def link_requirements(modules: Path, extra: str) -> None:
    """Link the files of the packages that the project requires, directly or not, into a directory of modules.

    Modules that processes of this environment have compiled are linked, too: pip did not install them.
    """
    seen: dict[str, Distribution] = {}
    names = ["state-processor"]
    for name in names:
        extras = (extra, "") if name == "state-processor" else ("",)
        try:
            seen[name] = seen.get(name) or distribution(name)
        except PackageNotFoundError:  # pip installs it
            continue
        required = map(Requirement, seen[name].requires or ())
        chosen = (r for r in required if r.marker is None or any(r.marker.evaluate({"extra": e}) for e in extras))
        names += [r.name for r in chosen if r.name not in names]
    for found in list(seen.values())[1:]:
        for file in found.files or ():
            source, target = Path(str(found.locate_file(file))), modules / file
            if ".." in file.parts or source.suffix == ".pyc":
                continue
            _link(source, target)
            compiled = Path(cache_from_source(str(source)))
            if source.suffix == ".py" and compiled.exists():
                _link(compiled, Path(cache_from_source(str(target))))


def _link(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)


def lower_bounds() -> tuple[str, ...]:
    """Return the oldest version that is declared of each package that is required with Spark, pinned."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = [*project["dependencies"], *project["optional-dependencies"]["spark"], *project["optional-dependencies"]["pandas"]]
    bounds = [re.match(r"([\w-]+)>=([\d.]+)", requirement) for requirement in declared]
    return tuple(f"{b[1]}=={b[2]}{'.0' if b[2].count('.') < 2 else ''}" for b in bounds if b)


def build(target: Path) -> None:
    """Build the sdist of a copy of the checkout in a directory, and the wheel of the sdist: in an environment for both."""
    copy, unpacked = target / "checkout", target / "unpacked"
    shutil.copytree(ROOT, copy, symlinks=True, ignore=shutil.ignore_patterns(*_LEFT_OUT))
    with DefaultIsolatedEnv() as environment:
        project = ProjectBuilder.from_isolated_env(environment, copy, quiet_subprocess_runner)
        environment.install(project.build_system_requires)
        with tarfile.open(project.build("sdist", target)) as sdist:
            sdist.extractall(unpacked, filter="data")
        (source,) = unpacked.iterdir()
        ProjectBuilder.from_isolated_env(environment, source, quiet_subprocess_runner).build("wheel", target)


def built(target: Path) -> tuple[Path, Path]:
    """Return the wheel and the sdist in a directory."""
    (wheel,), (sdist,) = target.glob("*.whl"), target.glob("*.tar.gz")
    return wheel, sdist


def interpreter(version: str) -> str | None:
    """Return the path of a Python of a version, if this machine has it."""
    pyenv = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    candidates = [shutil.which(f"python{version}"), *map(str, pyenv)]
    wanted = tuple(map(int, version.split(".")))
    check = f"import sys; sys.exit(sys.version_info[:2] != {wanted})"
    return next((c for c in candidates if c and not subprocess.run((c, "-c", check), capture_output=True).returncode), None)


def _run(*command: str, folder: Path | None = None, settings: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=settings, check=False, timeout=1200)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout[-4000:]}\n{done.stderr[-8000:]}")
    return done.stdout


def main() -> int:
    """Run the first steps with all combinations, and with the oldest versions; return the number of failed ones."""
    pythons = {version: interpreter(version) for version in PYTHONS}
    present = {version: python for version, python in pythons.items() if python}
    every = [
        Environment(f"python{version}-pyspark{spark}", python, (f"pyspark=={spark}.*",))
        for (version, python), spark in product(present.items(), SPARKS)
    ]
    every += [Environment(f"python{version}-without-spark", python, extra="") for version, python in present.items()]
    if pythons[PYTHONS[0]]:
        every.insert(0, Environment("oldest", str(pythons[PYTHONS[0]]), lower_bounds()))
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        build(Path(folder))
        wheel, _ = built(Path(folder))
        for environment in every:
            try:
                environment.install(wheel)
                outcome = json.dumps(environment.first_steps(Path(folder), environment.extra or "arrow"))
            except RuntimeError as failure:
                failed, outcome = failed + 1, f"FAILED\n{failure}"
            print(f"{environment.name}: {outcome}", flush=True)
    print(f"{len(every) - failed} of {len(every)} passed; no interpreter of {[v for v, p in pythons.items() if not p]}")
    return failed


if __name__ == "__main__":
    sys.exit(min(main(), 1))
