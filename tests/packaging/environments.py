"""Virtual environments with nothing in them but the project, as wheel or sdist, and the versions of packages that it declares.

``python -m tests.packaging.environments`` runs the first steps with every Python of this machine and every Spark.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "environments"
SAVEPOINT = ROOT / "tests" / "fixtures" / "2.3.0" / "orders-rocksdb-canonical" / "savepoint"
SPARKS = ("4.0", "4.1", "4.2", "4.3")
PYTHONS = ("3.11", "3.12", "3.13")
_LEFT_OUT = (".git", ".venv", ".cache", "build", "dist", "*.egg-info", "__pycache__")


@dataclass(frozen=True)
class Environment:
    """An interpreter, and pinned packages in addition to the project's requirements."""

    name: str
    python: str
    pins: tuple[str, ...] = ()

    @property
    def interpreter(self) -> Path:
        return CACHE / self.name / "bin" / "python"

    def install(self, package: Path) -> None:
        """Install a wheel or sdist of the project, with all that it requires."""
        pip = (sys.executable, "-m", "pip", "--python", str(self.interpreter), "--quiet", "--disable-pip-version-check")
        if self.interpreter.exists():
            _run(*pip, "uninstall", "--yes", "state-processor")  # the version is the same, the content is not
        else:
            _run(self.python, "-m", "venv", "--clear", "--without-pip", str(CACHE / self.name))
        # uncompiled: most of the modules are never imported
        _run(*pip, "install", "--no-compile", str(package), *self.pins)

    def first_steps(self, folder: Path, how: str) -> dict[str, Any]:
        """Run the first steps in a folder. Python finds modules there before installed modules."""
        program = Path(__file__).with_name("first_steps.py")
        code = "import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
        with tempfile.TemporaryDirectory() as target:
            command = (str(self.interpreter), "-c", code, str(program), str(SAVEPOINT), target, how)
            settings = {n: v for n, v in os.environ.items() if not n.startswith(("PYTHON", "PYSPARK", "VIRTUAL_ENV"))}
            done = _run(*command, folder=folder, settings=settings | {"PYSPARK_PYTHON": str(self.interpreter)})
        found: dict[str, Any] = json.loads(done.splitlines()[-1])
        return found


def lower_bounds() -> tuple[str, ...]:
    """Return the oldest version that is declared of each required package, pinned."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    bounds = [re.match(r"([\w-]+)>=([\d.]+)", requirement) for requirement in declared]
    return tuple(f"{b[1]}=={b[2]}{'.0' if b[2].count('.') < 2 else ''}" for b in bounds if b)


def build(target: Path) -> tuple[Path, Path]:
    """Build the wheel and the sdist of the checkout, in a copy of it."""
    copy = target / "checkout"
    shutil.copytree(ROOT, copy, symlinks=True, ignore=shutil.ignore_patterns(*_LEFT_OUT))
    _run(sys.executable, "-m", "build", "--outdir", str(target), str(copy))
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
    every = [
        Environment(f"python{version}-pyspark{spark}", python, (f"pyspark=={spark}.*",))
        for (version, python), spark in product(pythons.items(), SPARKS)
        if python
    ]
    if pythons[PYTHONS[0]]:
        every.insert(0, Environment("oldest", str(pythons[PYTHONS[0]]), lower_bounds()))
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        wheel, _ = build(Path(folder))
        for environment in every:
            try:
                environment.install(wheel)
                outcome = json.dumps(environment.first_steps(Path(folder), "spark"))
            except RuntimeError as failure:
                failed, outcome = failed + 1, f"FAILED\n{failure}"
            print(f"{environment.name}: {outcome}", flush=True)
    print(f"{len(every) - failed} of {len(every)} passed; no interpreter of {[v for v, p in pythons.items() if not p]}")
    return failed


if __name__ == "__main__":
    sys.exit(min(main(), 1))
