"""Check of files with code that this process runs: no other user but root may be able to change them."""

from __future__ import annotations

import os
import stat
from pathlib import Path

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def doubt_of(found: os.stat_result, *, entries_are_safe: bool = False) -> str | None:
    """Return why other users could change a file or a directory.

    Parameters
    ----------
    found
        The owner and the rights of the file.
    entries_are_safe
        Whether a directory that others write is accepted if its sticky bit keeps them from replacing the files of this user.

    Returns
    -------
    str or None
        The reason; ``None`` if only this user and root can change the file.
    """
    if found.st_uid not in (os.geteuid(), 0):
        return f"belongs to user {found.st_uid}"
    if found.st_mode & _OTHERS_WRITE and not (entries_are_safe and found.st_mode & stat.S_ISVTX):
        return "can be written by other users"
    return None


def doubt_of_folder(folder: Path) -> str | None:
    """Return why other users could put files into a directory, or replace a directory above it.

    Parameters
    ----------
    folder
        The directory. Links are followed: the directories that hold them count too.

    Returns
    -------
    str or None
        The first path that others can change, and how; ``None`` if others can change none of them.
    """
    try:
        resolved = folder.resolve(strict=True)
        for part in (resolved, *resolved.parents, *folder.absolute().parents):
            if doubt := doubt_of(part.stat(), entries_are_safe=part != resolved):
                return f"{part} {doubt}"
    except OSError as error:
        return str(error)
    return None


def read_trusted(file: Path) -> bytes | None:
    """Return the content of a file, or ``None`` if other users can change the file.

    Raises
    ------
    OSError
        If the file can't be read.
    """
    with open(file, "rb") as opened:
        return opened.read() if doubt_of(os.fstat(opened.fileno())) is None else None


def make_private(folder: Path, mode: int) -> None:
    """Make a directory and the missing directories above it with the same rights; the process's umask may take rights away.

    Raises
    ------
    OSError
        If a directory can't be made.
    """
    for missing in reversed([part for part in (folder, *folder.parents) if not part.exists()]):
        missing.mkdir(mode=mode, exist_ok=True)


def write_private(file: Path, content: bytes) -> None:
    """Write a new file that other users may read, but not change, whatever the process's umask is.

    Raises
    ------
    OSError
        If the file exists or can't be written.
    """
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644), "wb") as opened:
        opened.write(content)
