"""Files from commands: a new file gets its name when it is complete."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final
from uuid import uuid4

from state_processor.backends.files.location import Location
from state_processor.support.errors import WriteError

STANDARD_OUTPUT: Final = "-"


def check_new(path: str) -> None:
    """Check that a file can be created; call this before reading its content."""
    if not Location.parse(path).is_local:
        raise WriteError(f"{path}: only local files are written; write a local file and copy it")
    if os.path.lexists(path):
        raise WriteError(f"{path} exists; name a new file")
    directory = os.path.dirname(path) or os.curdir
    if not os.path.isdir(directory):
        raise WriteError(f"{path} can't be created: {directory} is not a directory; create it first")


@contextmanager
def new_file(path: str) -> Iterator[Any]:
    """Create a file. It has a temporary name until the block ends; it is removed if the block fails."""
    check_new(path)
    local = Location.parse(path).path
    partial = os.path.join(os.path.dirname(local), f".state-processor-{uuid4().hex}.part")
    try:
        file = open(partial, "xb")  # noqa: SIM115 - closed below, before the file gets its name
    except OSError as problem:
        raise WriteError(f"{path} can't be created: {problem.strerror}; name a file in a writable directory") from None
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        _rename(partial, local)
    except FileExistsError:
        raise WriteError(f"{path} exists; name a new file") from None
    except OSError as problem:
        if isinstance(problem, BrokenPipeError):
            raise
        raise WriteError(f"{path} can't be written: {problem.strerror or problem}") from None
    finally:
        with suppress(FileNotFoundError):
            os.unlink(partial)


def write_text(path: str, text: str, *, replaced: bool) -> None:
    """Write a text into a file; an existing file is replaced when the text is complete, if ``replaced`` is true."""
    replaced = replaced and os.path.lexists(path)
    target = f"{path}.{uuid4().hex}.part" if replaced else path
    with new_file(target) as file:
        file.write(text.encode())
    if replaced:
        os.replace(target, path)


def _rename(partial: str, path: str) -> None:
    """Give a file its name; unlike ``rename``, never replace a file from another process."""
    try:
        os.link(partial, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        if os.path.lexists(path):
            raise FileExistsError from None
        os.rename(partial, path)


class UnclosedFile:
    """A file for writers that close files, or that need the position of a pipe."""

    closed = False

    def __init__(self, file: Any) -> None:
        self._file = file
        self._position = 0

    def write(self, data: Any) -> int:
        """Write bytes."""
        self._file.write(data)
        self._position += len(data)
        return len(data)

    def tell(self) -> int:
        """Return the number of written bytes."""
        return self._position

    def flush(self) -> None:
        """Flush buffered bytes."""
        self._file.flush()

    def close(self) -> None:
        """Leave the file open."""
        self.flush()
