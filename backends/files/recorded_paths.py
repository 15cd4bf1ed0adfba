"""Paths that a snapshot records, which are data of whoever wrote it: what they may refer to, and what of them is never used.

A snapshot may come from anywhere. A path in it does not choose a host, credentials or settings of a file system, and it leads out
of the snapshot's storage only where the user says so with ``path_mapping`` or ``allow_paths``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from typing import Final

from state_processor.backends.files.location import Location
from state_processor.serializers.doors import spelled
from state_processor.serializers.errors import CorruptSnapshotError, ForbiddenPathError

_CHECKPOINT: Final = re.compile(r"chk-\d+")
_JOB: Final = re.compile(r"[0-9a-f]{32}")
_FLINK_DIRECTORY: Final = re.compile(r"[0-9a-f]{32}|chk-\d+|savepoint-[0-9a-f]{6}-[0-9a-f]{12}|shared|taskowned|dstl")
_CONTAINER_SCHEMES: Final = frozenset({"abfs", "abfss", "wasb", "wasbs"})
"""Their URLs name a container where those of others name a user: ``abfss://container@account…``."""


def recorded_location(text: str, context: str = "") -> Location:
    """Return the location of a recorded absolute path, without user name.

    Parameters
    ----------
    text
        The path or URL in ``_metadata``.
    context
        What the file belongs to (operator, state), for messages.

    Raises
    ------
    CorruptSnapshotError
        No file has such a name.
    ForbiddenPathError
        The path has a query, a fragment or a part ``..``. Flink writes none of them.
    """
    _check_characters(text, context)
    location = Location.parse(text)
    if not location.is_local and (location.query or "?" in text or "#" in text):
        raise ForbiddenPathError(
            f"{_of(context)}the recorded path {text!r} has a query or fragment, which is never used: it could direct requests "
            "and credentials to another host. If the snapshot is trusted, copy the file beside _metadata"
        )
    _check_parts(location.path.split("/"), text, context)
    return location._replace(authority=_without_user(location))


def joined(directory: Location, parts: Sequence[str], text: str, context: str = "") -> Location:
    """Return the location of a recorded path, or the last parts of one, below a directory.

    Parameters
    ----------
    directory
        A directory that the user named, or one near it.
    parts
        The parts of the path below it.
    text
        The path as it is recorded, for messages.
    context
        What the file belongs to, for messages.

    Raises
    ------
    CorruptSnapshotError
        No file has such a name.
    ForbiddenPathError
        The path leads out of the directory, or would be taken for a query or a fragment.
    """
    relative = "/".join(parts)
    _check_characters(relative, context)
    _check_parts(relative.split("/"), text, context)
    if not directory.is_local and ("?" in relative or "#" in relative):
        raise ForbiddenPathError(f"{_of(context)}the recorded path {text!r} has a query or fragment, which is never used")
    return directory.joined(relative)


def storage_and_parts(location: Location) -> tuple[str, ...]:
    """Return scheme and authority, then the parts of the path: equal for ``/a``, ``file:/a`` and ``file:///a/``."""
    return (f"{location.scheme}://{_without_user(location)}", *location.segments)


class Boundaries:
    """The places that recorded paths may refer to: the snapshot's own storage, and those that the user allows.

    For a remote snapshot the own storage is the bucket or file system. For a local one it is the snapshot's directory, and what
    Flink keeps beside it: ``shared``, ``taskowned`` and other checkpoints in the job's directory, and in the checkpoint directory
    those of other jobs.

    Parameters
    ----------
    base_dir
        The directory that holds ``_metadata``.
    allow_paths
        Further directories or URLs, with all that is below them.
    """

    def __init__(self, base_dir: str, allow_paths: Iterable[str] = ()) -> None:
        base = Location.parse(base_dir)
        self._whole = [base if base.is_local else base._replace(path="/"), *(Location.given(path) for path in allow_paths)]
        self._beside = _directories_of_job(base) if base.is_local else []
        self._real: dict[str, str] = {}

    def permitted(self, recorded: Location) -> tuple[Location, Location] | None:
        """Return where a recorded path may be read, and the place that permits it; ``None`` if it may not be read.

        The location has the credentials and settings of the place, which the user gave.
        """
        where = storage_and_parts(recorded)
        for root in (*self._whole, *self._beside):
            prefix = storage_and_parts(root)
            within = where[: len(prefix)] == prefix
            if within and (root in self._whole or is_below_checkpoint_directory(where[len(prefix) :])):
                return root._replace(path=recorded.path), root
        return None

    def check_real(self, candidate: Location, root: Location, text: str, context: str = "") -> None:
        """Check that a local file is below ``root`` or a permitted place when symbolic links are followed.

        Raises
        ------
        ForbiddenPathError
            A link leads elsewhere.
        """
        if not candidate.is_local:
            return
        directory, name = os.path.split(candidate.path)
        real = os.path.realpath(os.path.join(self._real_directory(directory), name))
        roots = [root, *(r for r in self._whole if r.is_local), *self._beside]
        if not any(_is_below(real, self._real_directory(r.path)) for r in roots):
            raise ForbiddenPathError(
                f"{_of(context)}{candidate} (recorded as {text!r}) is a link to {real}, outside of the snapshot's "
                f"storage. If that is intended, pass {spelled('allow_paths', [os.path.dirname(real)])}"
            )

    def _real_directory(self, path: str) -> str:
        real = self._real.get(path)
        if real is None:
            real = self._real[path] = os.path.realpath(path)
        return real


def is_below_checkpoint_directory(parts: Sequence[str]) -> bool:
    """Return True if the last parts of a recorded path begin with a directory that Flink makes.

    Such a path is looked for beside a snapshot that was moved. Any other, such as ``/etc/passwd``, is not.
    """
    if len(parts) < 2:
        return False
    return bool(_FLINK_DIRECTORY.fullmatch(parts[0]) or (len(parts) > 2 and _JOB.fullmatch(parts[1])))


def movable_directory(location: Location) -> Location:
    """Return the directory of a recorded file that is moved as a whole: above that of the job, or else its own.

    It is ``/data/checkpoints`` for ``/data/checkpoints/JOB/shared/FILE``, and ``/logs`` for ``/logs/JOB/dstl/FILE``.
    """
    parts = location.segments
    job = next((i for i, part in enumerate(parts[:-1]) if _JOB.fullmatch(part)), 0)
    return location._replace(path="/" + "/".join(parts[:job])) if job else location.parent


def _directories_of_job(base: Location) -> list[Location]:
    """Return the directory of a local checkpoint's job, and the one that holds the jobs, as far as names say so."""
    directories = []
    if _CHECKPOINT.fullmatch(base.name):
        directories.append(base.parent)
        if _JOB.fullmatch(base.parent.name):
            directories.append(base.parent.parent)
    return directories


def _without_user(location: Location) -> str:
    if location.scheme in _CONTAINER_SCHEMES:
        return location.authority
    return location.authority.rpartition("@")[2]


def _check_characters(text: str, context: str) -> None:
    if "\0" in text:
        raise CorruptSnapshotError(f"{_of(context)}the recorded path {text!r} has a zero character")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise CorruptSnapshotError(f"{_of(context)}the recorded path {text!r} is not valid Unicode") from error


def _check_parts(parts: Iterable[str], text: str, context: str) -> None:
    if ".." in parts:
        raise ForbiddenPathError(f"{_of(context)}the recorded path {text!r} has a part '..', which Flink does not write")


def _is_below(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def _of(context: str) -> str:
    return f"{context}: " if context else ""
