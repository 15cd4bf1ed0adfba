"""Commands that set up a machine: ``warm-up`` compiles all kernels, ``sample`` copies the savepoint of the documentation."""

from __future__ import annotations

import argparse
import shutil
from importlib import import_module
from typing import Any, Final

from state_processor.commands.command import argument, command
from state_processor.commands.terminal import say
from state_processor.samples import SHOP
from state_processor.support.errors import OptionError, WriteError

MODULES: Final = (
    "state_processor.serializers.kernel.decode.loop",
    "state_processor.serializers.kernel.encode.loop",
    "state_processor.serializers.hash_codes",
    "state_processor.backends.formats.framing",
    "state_processor.backends.formats.entry_framing",
    "state_processor.backends.formats.key_index",
    "state_processor.backends.formats.sst.block_format",
    "state_processor.backends.formats.sst.block_kernels",
    "state_processor.backends.formats.sst.block_writing_kernels",
    "state_processor.backends.formats.sst.crc32c",
    "state_processor.backends.formats.sst.key_set",
    "state_processor.backends.formats.sst.merge_kernel",
    "state_processor.backends.formats.row_spans",
    "state_processor.backends.write.sorted_entries",
    "state_processor.backends.write.tombstones",
    "state_processor.backends.analysis.entry_bytes",
    "state_processor.backends.analysis.entry_sizes",
    "state_processor.backends.analysis.stored_bytes",
)
"""The modules with kernels that Python calls, and with kernels that a program may need."""


@command(
    "warm-up",
    "compile all kernels, for images and scripts",
    "Compile all missing kernels for this version of the package, Python, Numba and this machine's CPU. "
    "They are stored in the user's cache, or in the directory of the environment variable STATE_PROCESSOR_CACHE. Reads and "
    "writes load them from there.",
    python=(),
)
def _warm_up(options: argparse.Namespace) -> None:
    # Imported here: most commands don't need kernels.
    compiler = import_module("state_processor.serializers.kernel.compiler")
    kernels: dict[int, Any] = {}
    for name in MODULES:
        for value in vars(import_module(name)).values():
            if isinstance(value, compiler.DeclaredKernel):
                kernels[id(value)] = value
    compiled = 0
    for kernel in kernels.values():
        kernel.compile()
        compiled += kernel.is_new
    folder = compiler.writable_folder()
    if compiled and folder is None:
        raise OptionError(
            "compiled kernels can't be stored: no directory is writable; name a directory with the environment variable "
            f"{compiler.FOLDER_SETTING}"
        )
    target = folder or compiler.cache_folders()[0]
    say(f"{len(kernels)} kernels in {target}, {compiled} of them compiled now")


@command(
    "sample",
    "the savepoint of a small shop, to try commands on",
    "Copy the savepoint of a small shop, which the documentation uses, into a new directory.",
    argument("target", metavar="DIR", help="a new directory"),
    python=("sp.sample_savepoint",),
)
def _sample(options: argparse.Namespace) -> None:
    try:
        shutil.copytree(SHOP, options.target)
    except FileExistsError:
        raise WriteError(f"{options.target} exists; name a new directory") from None
    say(f"{options.target} is the savepoint of a small shop. See its operators: state-processor inspect {options.target}")
