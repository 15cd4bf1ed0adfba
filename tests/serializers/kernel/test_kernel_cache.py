"""Compiled kernels are found again if their source has not changed."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from hashlib import sha256
from pathlib import Path
from uuid import uuid4
from zipfile import ZipFile

import pytest

from state_processor.serializers.kernel.compiler import Kernel
from state_processor.serializers.kernel.compiling.machine_code import (
    cache_folders,
    content_stamp,
    doubt_of,
    doubt_of_folder,
    log_compilation,
)
from state_processor.serializers.kernel.decode import text
from tests.afresh import start_afresh
from tests.waiting import SECONDS

pytestmark = pytest.mark.slow

NOWHERE = Path("/nowhere")
MODULE = """
from state_processor.serializers.kernel.compiler import entry_point
from state_processor.serializers.kernel.signatures import int64
from {helper} import helper
LIMIT = {limit}

@entry_point(int64)
def run(x):
    return helper(x) + LIMIT
"""
HELPER = """
from state_processor.serializers.kernel.compiler import kernel

@kernel
def helper(x):
    return x + {offset}
"""
ALLOCATING = """
import numpy as np
from state_processor.serializers.kernel.compiler import entry_point
from state_processor.serializers.kernel.signatures import int64

@entry_point(int64, allocates=True)
def run(x):
    return len(np.empty(x, dtype=np.int64))
"""
SIZED = """
from state_processor.serializers.kernel.compiler import entry_point
from state_processor.serializers.kernel.signatures import int64, read

@entry_point(read(int64))
def run(data):
    return len(data)
"""
CALLS = """
import sys
import numpy as np
sys.path.insert(0, {folder!r})
from state_processor.serializers.kernel.interpreter import interpreter
import sized
for size in (10, 1 << 14, 10):
    assert sized.run(np.zeros(size, np.int64)) == size
    print("_compiled" in vars(sized.run))
print(sized.run.is_new, interpreter.budget > 0)
"""
OTHER_PROCESSOR = """
from llvmlite import binding
binding.get_host_cpu_name = lambda: "x86-64"
"""
PROGRAM = """
from state_processor.serializers.kernel.interpreter import interpreter
interpreter.stop()
import os, sys
allowed = os.access
os.access = lambda path, mode: allowed(path, mode) and (mode != os.W_OK or not str(path).startswith({read_only!r}))
sys.path.insert(0, {folder!r})
import main
result = main.run(1)
print(result, int(not main.run.is_new), int(main.run.is_new))
"""


class Program:
    """A process that runs a program, and has imported Numba but compiled nothing.

    By default the program runs the modules in a folder, and can't write where ``read_only`` is.
    """

    def __init__(self, folder: Path, cache: Path, *, read_only: Path = NOWHERE, program: str = PROGRAM, **settings: str) -> None:
        self._outputs = [folder.parent / f"{uuid4()}.{name}" for name in ("out", "err")]
        text = program.format(folder=str(folder), read_only=str(read_only))
        environment = os.environ | {"STATE_PROCESSOR_CACHE": str(cache)} | settings
        self._end = start_afresh(_execute, text, environment, umask(), *self._outputs)

    def printed(self) -> tuple[list[str], list[str]]:
        """Wait for the end. Return the printed words, and the lines of the log."""
        status = self._end()
        output, log = (path.read_text() for path in self._outputs)
        assert not status, log
        return output.split(), log.splitlines()


def umask() -> int:
    """The umask of this process."""
    current = os.umask(0)
    os.umask(current)
    return current


def _execute(program: str, environment: dict[str, str], mask: int, *outputs: Path) -> None:
    """Run a program as a new process would."""
    os.environ.clear()
    os.environ.update(environment)
    os.umask(mask)
    sys.dont_write_bytecode = True
    tempfile.tempdir = None
    for cached in (cache_folders, log_compilation):
        cached.cache_clear()
    for number, path in enumerate(outputs, 1):
        with path.open("wb") as file:
            os.dup2(file.fileno(), number)
    exec(program, {"__name__": "__main__"})
    sys.stdout.flush()


def run(
    folder: Path, cache: Path, limit: int = 10, offset: int = 100, *, read_only: Path = NOWHERE, **settings: str
) -> tuple[int, int, int]:
    """The result, and how often code was found and not found in the cache, in a new process."""
    return run_and_log(folder, cache, limit, offset, read_only=read_only, **settings)[0]


def write_modules(folder: Path, limit: int = 10, offset: int = 100) -> None:
    """Write the modules of a process: a kernel and, in another module, a part of it."""
    (folder / "main.py").write_text(MODULE.format(helper="helping", limit=limit))
    (folder / "helping.py").write_text(HELPER.format(offset=offset))


def run_and_log(
    folder: Path, cache: Path, limit: int = 10, offset: int = 100, *, read_only: Path = NOWHERE, **settings: str
) -> tuple[tuple[int, int, int], list[str]]:
    """The same, and the lines of the log."""
    write_modules(folder, limit, offset)
    words, log = Program(folder, cache, read_only=read_only, **settings).printed()
    result, hits, misses = map(int, words)
    return (result, hits, misses), log


def test_code_is_kept_until_something_in_it_changes(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    assert run(tmp_path, cache) == (111, 0, 1)
    assert run(tmp_path, cache) == (111, 1, 0)
    assert run(tmp_path, cache, limit=20) == (121, 0, 1)
    assert run(tmp_path, cache, limit=20, offset=200) == (221, 0, 1)  # in a function of another module
    assert run(tmp_path, cache) == (111, 1, 0)  # the existing files stay


def test_kernels_that_make_arrays_are_loaded_by_new_processes(tmp_path: Path) -> None:
    folder, cache = tmp_path / "modules", tmp_path / "cache"
    folder.mkdir()
    (folder / "main.py").write_text(ALLOCATING)
    for misses in ("1", "0"):
        words, _ = Program(folder, cache).printed()
        assert [words[0], words[2]] == ["1", misses]


@pytest.mark.parametrize(("setting", "misses"), [({"NUMBA_CPU_NAME": "generic"}, "0"), ({}, "1")])
def test_generic_code_in_an_image_is_used_by_other_processors(tmp_path: Path, setting: dict[str, str], misses: str) -> None:
    folder, image = tmp_path / "modules", tmp_path / "image"
    folder.mkdir()
    write_modules(folder)
    environment = os.environ | {"STATE_PROCESSOR_CACHE": str(image)} | setting
    program = PROGRAM.format(folder=str(folder), read_only=str(NOWHERE))
    printed = [
        subprocess.run(
            [sys.executable, "-c", start + program], env=environment, capture_output=True, check=True, text=True
        ).stdout
        for start in ("", OTHER_PROCESSOR)
    ]
    assert [line.split()[2] for line in printed] == ["1", misses]


def test_the_first_compilation_of_an_installation_is_logged_in_one_line(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    (line,) = run_and_log(tmp_path, cache)[1]
    assert line.startswith(f"compiling kernels, which takes some seconds; they are kept in {cache}")
    assert run_and_log(tmp_path, cache)[1] == []
    assert run_and_log(tmp_path, cache, limit=20) == ((121, 0, 1), [])  # other code of the same installation
    assert len(run_and_log(tmp_path, tmp_path / "other")[1]) == 1


def test_what_can_not_be_kept_is_logged_with_what_to_do(tmp_path: Path) -> None:
    places = {name: str(tmp_path / name) for name in ("XDG_CACHE_HOME", "TMPDIR")}
    (line,) = run_and_log(tmp_path, tmp_path / "cache", read_only=Path("/"), **places)[1]
    assert "in every process, as" in line
    assert "can't be written; set STATE_PROCESSOR_CACHE" in line


def test_code_that_is_damaged_is_compiled_again(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    run(tmp_path, cache)
    (file,) = cache.rglob("main.run-*.kernel")
    file.write_bytes(file.read_bytes()[:-1])
    assert run(tmp_path, cache) == (111, 0, 1)
    assert run(tmp_path, cache) == (111, 1, 0)


def test_processes_that_start_together_compile_once(tmp_path: Path) -> None:
    write_modules(tmp_path)
    started = [Program(tmp_path, tmp_path / "cache") for _ in range(3)]
    found = sorted(program.printed()[0] for program in started)
    assert found == [["111", "0", "1"], ["111", "1", "0"], ["111", "1", "0"]]


def test_kernels_of_an_archive_are_kept_too(tmp_path: Path) -> None:
    run(tmp_path, tmp_path / "cache")
    with ZipFile(tmp_path / "modules.zip", "w") as archive:
        for module in ("main.py", "helping.py"):
            archive.write(tmp_path / module, module)
    program = PROGRAM.format(folder=str(tmp_path / "modules.zip"), read_only=str(NOWHERE))
    for seed in "12":  # the same sources, so the same code; new processes have hash codes of their own
        environment = os.environ | {"STATE_PROCESSOR_CACHE": str(tmp_path / "cache"), "PYTHONHASHSEED": seed}
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True)
        assert done.stdout.strip() == "111 1 0"


def test_a_folder_that_can_not_be_written_is_read_and_new_code_is_kept_for_the_user(tmp_path: Path) -> None:
    shared, own = tmp_path / "shared", {"XDG_CACHE_HOME": str(tmp_path / "own")}
    assert run(tmp_path, shared) == (111, 0, 1)
    there = set(shared.rglob("*"))
    assert run(tmp_path, shared, read_only=shared, **own) == (111, 1, 0)
    assert run(tmp_path, shared, 20, read_only=shared, **own) == (121, 0, 1)
    assert run(tmp_path, shared, 20, read_only=shared, **own) == (121, 1, 0)
    assert set(shared.rglob("*")) == there
    assert list((tmp_path / "own").rglob("main.run-*.kernel"))


def test_without_a_home_code_goes_where_only_the_user_can_write(tmp_path: Path) -> None:
    settings = {"HOME": "/proc/nobody", "XDG_CACHE_HOME": "", "TMPDIR": str(tmp_path)}
    assert run(tmp_path, Path(), **settings | {"STATE_PROCESSOR_CACHE": ""}) == (111, 0, 1)
    (folder,) = tmp_path.glob("state-processor-kernels-*")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert run(tmp_path, Path(), **settings | {"STATE_PROCESSOR_CACHE": ""}) == (111, 1, 0)
    folder.chmod(0o777)
    assert run(tmp_path, Path(), **settings | {"STATE_PROCESSOR_CACHE": ""}) == (111, 0, 1)  # not trusted


def test_code_that_others_can_replace_is_not_run(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    run(tmp_path, tmp_path / "other", limit=20)
    run(tmp_path, cache)
    (file,) = cache.rglob("main.run-*.kernel")
    (other,) = (tmp_path / "other").rglob("main.run-*.kernel")
    code = other.read_bytes()[32:].replace(_digest(other), _digest(file))  # of the symbol
    planted = sha256(code).digest() + code
    file.write_bytes(planted)
    settings = {"XDG_CACHE_HOME": str(tmp_path / "own")}
    for open_to_others in (file, file.parent, cache):
        before = open_to_others.stat().st_mode
        open_to_others.chmod(before | 0o020)
        (result, _, misses), log = run_and_log(tmp_path, cache, **settings)
        assert result == 111
        if open_to_others is file:  # replaced by code that only this user can write
            assert misses == 1
            assert file.stat().st_mode & 0o022 == 0
            file.write_bytes(planted)
        else:
            (warning,) = [line for line in log if "are not used" in line]
            assert f"{open_to_others} can be written by other users" in warning
            assert "chmod go-w" in warning
        open_to_others.chmod(before)
    assert run(tmp_path, cache) == (121, 1, 0)  # files of the user are loaded: the planted file would have worked


def _digest(file: Path) -> bytes:
    return file.stem.rpartition("-")[2].encode()


def test_a_file_of_another_kernel_is_not_run(tmp_path: Path) -> None:
    cache, other = tmp_path / "cache", tmp_path / "other"
    run(tmp_path, other, limit=20)
    run(tmp_path, cache)
    (file,) = cache.rglob("main.run-*.kernel")
    file.write_bytes(next(other.rglob("main.run-*.kernel")).read_bytes())
    assert run(tmp_path, cache) == (111, 0, 1)


def test_stored_code_runs_without_the_compiler(tmp_path: Path) -> None:
    run(tmp_path, tmp_path / "cache")
    program = PROGRAM.format(folder=str(tmp_path), read_only=str(NOWHERE)) + "print('numba' in sys.modules)"
    environment = os.environ | {"STATE_PROCESSOR_CACHE": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.split() == ["111", "1", "0", "False"]


def test_new_code_is_trusted_whatever_the_umask_is(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        assert run(tmp_path, tmp_path / "cache") == (111, 0, 1)
    finally:
        os.umask(before)
    assert run(tmp_path, tmp_path / "cache") == (111, 1, 0)


@pytest.mark.parametrize(
    ("owner", "mode", "doubt"),
    [
        ("self", 0o755, None),
        ("root", 0o755, None),
        ("other", 0o755, "belongs to user"),
        ("self", 0o775, "can be written by other users"),
        ("self", 0o757, "can be written by other users"),
        ("root", 0o1777, "can be written by other users"),
    ],
)
def test_only_files_of_the_user_and_of_root_are_trusted(owner: str, mode: int, doubt: str | None) -> None:
    user = {"self": os.geteuid(), "root": 0, "other": os.geteuid() + 1}[owner]
    found = doubt_of(os.stat_result((mode, 0, 0, 1, user, 0, 0, 0, 0, 0)))
    assert found == doubt or (doubt and found and found.startswith(doubt))


def test_a_sticky_directory_is_trusted_above_a_folder_and_not_as_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "shared" / "own"
    folder.mkdir(parents=True)
    folder.parent.chmod(0o1777)
    assert doubt_of_folder(folder) is None
    assert doubt_of_folder(folder.parent) == f"{folder.parent} can be written by other users"
    folder.parent.chmod(0o777)
    assert doubt_of_folder(folder) == f"{folder.parent} can be written by other users"


def test_a_link_in_a_directory_that_others_write_is_not_trusted(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "shared").mkdir(mode=0o777)
    (tmp_path / "shared").chmod(0o777)
    (tmp_path / "shared" / "link").symlink_to(tmp_path / "own")
    assert doubt_of_folder(tmp_path / "own") is None
    assert doubt_of_folder(tmp_path / "shared" / "link") == f"{tmp_path / 'shared'} can be written by other users"


def test_a_stamp_covers_what_a_function_calls_and_the_options_of_the_compiler() -> None:
    function = text.put_integer.py_func
    assert content_stamp(Kernel(function, is_part=True, allocates=True)) == text.put_integer.kernel_stamp
    assert content_stamp(Kernel(function, is_part=True)) != text.put_integer.kernel_stamp
    assert text.put_integer.kernel_stamp != text.put_code_point.kernel_stamp


def test_threads_that_start_together_compile_once(tmp_path: Path) -> None:
    write_modules(tmp_path)
    threaded = PROGRAM.replace("result = main.run(1)", "(result,) = set(ThreadPoolExecutor(4).map(main.run, [1] * 4))")
    program = f"from concurrent.futures import ThreadPoolExecutor\n{threaded}"
    assert Program(tmp_path, tmp_path / "cache", program=program).printed()[0] == ["111", "0", "1"]


def test_a_call_with_much_work_loads_stored_code(tmp_path: Path) -> None:
    """Without stored code, these calls are interpreted."""
    (tmp_path / "sized.py").write_text(SIZED)
    cache = tmp_path / "cache"

    def printed(before: str = "") -> list[str]:
        return Program(tmp_path, cache, program=before + CALLS).printed()[0]

    assert printed() == ["False", "False", "False", "False", "True"]
    compiling = "from state_processor.serializers.kernel.interpreter import interpreter; interpreter.stop()\n"
    assert printed(compiling) == ["True", "True", "True", "True", "False"]
    assert printed() == ["False", "True", "True", "False", "True"]
    (tmp_path / "sized.py").write_text(SIZED.replace("len(data)", "len(data) + 0"))
    assert printed() == ["False", "False", "False", "False", "True"]  # the stored code is of another version


FUNCTIONS = """
from state_processor.serializers.kernel.compiler import entry_point
from state_processor.serializers.kernel.families import caller, family
from state_processor.serializers.kernel.signatures import int64, read

call = caller(3)

@family
def first(tables, pc, pos, end):
    return pc + 1, pos, end

@family
def second(tables, pc, pos, end):
    return pc + 2, pos, end

@entry_point(read(int64), read(int64))
def run(functions, data):
    at, pos, end = call(functions[0], 0, len(data), 0, 0)
    return at
"""
CALLS_OF_FUNCTIONS = """
import sys
import numpy as np
sys.path.insert(0, {folder!r})
from state_processor.serializers.kernel.compiler import Addresses
import functions
for called, by in ((functions.first, 1), (functions.second, 2)):
    assert functions.run(Addresses([called]), np.zeros(1 << 14, np.int64)) == (1 << 14) + by
print("address" in vars(functions.run), *("address" in vars(f) for f in (functions.first, functions.second)))
"""


def test_a_call_does_not_compile_functions_for_stored_code(tmp_path: Path) -> None:
    """A cache has the loop and the families of the states that were read."""
    (tmp_path / "functions.py").write_text(FUNCTIONS)
    cache = tmp_path / "cache"

    def printed(program: str) -> list[str]:
        return Program(tmp_path, cache, program=program).printed()[0]

    importing = CALLS_OF_FUNCTIONS.partition("for called")[0]
    assert printed(importing + "functions.run.compile(); functions.first.compile(); print('compiled')") == ["compiled"]
    assert printed(CALLS_OF_FUNCTIONS) == ["True", "True", "False"]
    assert printed(importing + "functions.second.compile(); print(functions.first.is_new)") == ["False"]
    assert printed(CALLS_OF_FUNCTIONS) == ["True", "True", "True"]


LATE_THREAD = """
import sys, threading
import numpy as np
sys.path.insert(0, sys.argv[1])
from state_processor.serializers.kernel.compiling.machine_code import MachineCode
from state_processor.serializers.kernel.interpreter import interpreter
import total

interpreter.stop()  # a kernel that is interpreted is never stored
stored, called, found = threading.Event(), threading.Event(), []
store = MachineCode._store

def store_slowly(self, *arguments):
    stored.set()
    called.wait(0.5)  # the other thread calls meanwhile
    store(self, *arguments)

MachineCode._store = store_slowly
writable = np.ones(3, np.uint8)

def call():
    found.append(total.run(writable))

first = threading.Thread(target=call)
first.start()
assert stored.wait(60), "the kernel was not stored"
second = threading.Thread(target=call)
second.start()
second.join(0.5)
called.set()
first.join()
second.join()
print(found)
"""
TOTAL = """
from state_processor.serializers.kernel.compiler import entry_point
from state_processor.serializers.kernel.signatures import read, uint8

@entry_point(read(uint8))
def run(numbers):
    total = 0
    for number in numbers:
        total += number
    return total
"""


def test_a_thread_that_calls_a_kernel_while_it_is_stored_gets_its_result(tmp_path: Path) -> None:
    (tmp_path / "total.py").write_text(TOTAL)
    environment = os.environ | {"STATE_PROCESSOR_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", LATE_THREAD, str(tmp_path)],
        capture_output=True,
        env=environment,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    assert done.stdout.strip() == "[3, 3]", done.stderr


FORK = """
import os, threading, time
from numba.core.compiler_lock import global_compiler_lock
import state_processor.serializers.kernel.compiling.pipeline

held = threading.Event()

def compile_something():
    with global_compiler_lock:
        held.set()
        time.sleep(0.2)

threading.Thread(target=compile_something).start()
held.wait()
process = os.fork()
if not process:
    with global_compiler_lock:
        os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))
"""


def test_a_process_that_is_forked_while_another_thread_compiles_can_compile() -> None:
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, check=True, timeout=SECONDS)
    assert done.stdout.strip() == "7"
