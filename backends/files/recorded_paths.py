"""Paths that a snapshot records: untrusted data, and the limits of their use.

A snapshot may come from anywhere. A path in it never selects a host, credentials or settings of a file system. It leads out of
the snapshot's storage only if the user permits this with ``path_mapping`` or ``allow_paths``.
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
"""Schemes whose URLs have a container in the position of the user name: ``abfss://container@account…``."""


def recorded_location(text: str, context: str = "") -> Location:
    """Return the location of a recorded absolute path, without the user name.

    ``text``: the path or URL in ``_metadata``. ``context``: owner of the file (operator, state), for messages.
    """
    _check_characters(text, context)
    location = Location.parse(text)
    if not location.is_local and (location.query or "?" in text or "#" in text):
        raise ForbiddenPathError(
            f"{_of(context)}the recorded path {text!r} has a query or fragment. It is never used: it could direct requests "
            "and credentials to another host. If you trust the snapshot, copy the file next to _metadata"
        )
    _check_parts(location.path.split("/"), text, context)
    return location._replace(authority=_without_user(location))


def joined(directory: Location, parts: Sequence[str], text: str, context: str = "") -> Location:
    """Return the location of a recorded path, or the last parts of one, below a directory.

    ``directory``: a directory from the user, or a directory near it. ``text``: the recorded path, for messages. ``context``:
    owner of the file, for messages.
    """
    relative = "/".join(parts)
    _check_characters(relative, context)
    _check_parts(relative.split("/"), text, context)
    if not directory.is_local and ("?" in relative or "#" in relative):
        raise ForbiddenPathError(f"{_of(context)}the recorded path {text!r} has a query or fragment. It is never used")
    return directory.joined(relative)


def storage_and_parts(location: Location) -> tuple[str, ...]:
    """Return scheme and authority, then the parts of the path. The result is equal for ``/a``, ``file:/a`` and ``file:///a/``."""
    return (f"{location.scheme}://{_without_user(location)}", *location.segments)


class Boundaries:
    """The places that recorded paths may refer to: the snapshot's own storage, and the places that the user allows.

    The own storage of a remote snapshot is its bucket or file system. The own storage of a local snapshot is its directory and
    the directories that Flink keeps next to it: ``shared``, ``taskowned`` and other checkpoints of the job, and the directories
    of other jobs in the checkpoint directory.

    ``base_dir``: the directory of ``_metadata``. ``allow_paths``: further directories or URLs; files at any level below them are
    permitted.
    """

    def __init__(self, base_dir: str, allow_paths: Iterable[str] = ()) -> None:
        base = Location.parse(base_dir)
        self._whole = [base if base.is_local else base._replace(path="/"), *map(Location.given, allow_paths)]
        self._beside = _directories_of_job(base) if base.is_local else []
        self._real: dict[str, str] = {}

    def permitted(self, recorded: Location) -> tuple[Location, Location] | None:
        """Return the location of a recorded path, and the place that permits reading it; ``None`` if reading is not permitted.

        The location has the credentials and settings of the place; both come from the user.
        """
        recorded_parts = storage_and_parts(recorded)
        for root in (*self._whole, *self._beside):
            prefix = storage_and_parts(root)
            within = recorded_parts[: len(prefix)] == prefix
            if within and (root in self._whole or is_below_checkpoint_directory(recorded_parts[len(prefix) :])):
                return root._replace(path=recorded.path), root
        return None

    def check_real(self, candidate: Location, root: Location, text: str, context: str = "") -> None:
        """Check that a local file is below ``root`` or a permitted place after symbolic links are resolved."""
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
    """Return whether the last parts of a recorded path begin with a directory that Flink creates.

    Such a path is searched next to a moved snapshot. Other paths, such as ``/etc/passwd``, are not.
    """
    if len(parts) < 2:
        return False
    return bool(_FLINK_DIRECTORY.fullmatch(parts[0]) or (len(parts) > 2 and _JOB.fullmatch(parts[1])))


def movable_directory(location: Location) -> Location:
    """Return the directory that moves as a whole with a recorded file: the parent of the job's directory, or else the file's.

    It is ``/data/checkpoints`` for ``/data/checkpoints/JOB/shared/FILE``, and ``/logs`` for ``/logs/JOB/dstl/FILE``.
    """
    parts = location.segments
    job = next((i for i, part in enumerate(parts[:-1]) if _JOB.fullmatch(part)), 0)
    return location._replace(path="/" + "/".join(parts[:job])) if job else location.parent


def _directories_of_job(base: Location) -> list[Location]:
    """Return the directory of a local checkpoint's job and its parent with all jobs, as far as the names show them."""
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
        raise ForbiddenPathError(f"{_of(context)}the recorded path {text!r} has a part '..'. Flink does not write such paths")


def _is_below(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def _of(context: str) -> str:
    return f"{context}: " if context else ""
