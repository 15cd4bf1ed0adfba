"""All files below a directory, as one recursive listing."""

from __future__ import annotations

import os
from datetime import UTC, datetime

import pyarrow.fs as pafs

from state_processor.backends.files.location import Location, refuse_undecodable
from state_processor.backends.files.storage import Storage
from state_processor.serializers.errors import NotASnapshotError
from state_processor.serializers.records import dataclass
from state_processor.serializers.redaction import redacted_repr


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file as its storage lists it.

    Parameters
    ----------
    path
        The path or URL, without symbolic links.
    size
        Bytes.
    modified
        Time of the last change; ``None`` where the storage does not have it.
    """

    path: str
    size: int
    modified: datetime | None

    __repr__ = redacted_repr

    @property
    def location(self) -> Location:
        """The path, taken apart."""
        return Location.parse(self.path)


def real_path(path: str) -> str:
    """Return one spelling for each file, so that paths can be compared: local paths without symbolic links."""
    location = Location.parse(path)
    return os.path.realpath(location.path) if location.is_local else str(location)


def files_below(directory: str, storage: Storage) -> list[ListedFile]:
    """Return all files below a directory, and files behind symbolic links there, by their places.

    A file behind a link may be outside of the directory. Snapshots there count as users of files, and are not removed.

    Raises
    ------
    NotASnapshotError
        If the directory does not exist.
    MissingFileError
        If the storage does not answer, or the name of a directory or file is not UTF-8.
    """
    if not storage.is_directory(directory):
        raise NotASnapshotError(f"{directory} is not a directory; give one that has snapshots somewhere below it")
    root = Location.parse(real_path(directory))

    def infos_in(filesystem: pafs.FileSystem, inner: str) -> tuple[str, list[pafs.FileInfo]]:
        return inner, list(filesystem.get_file_info(pafs.FileSelector(inner or "/", recursive=True)))

    refuse_undecodable(str(root))
    inner, infos = storage.call(str(root), infos_in, "listed")
    try:
        places = [info.path.removeprefix(inner) for info in infos]
    except UnicodeDecodeError:
        for found, directories, files in os.walk(root.path):
            for name in (*directories, *files):
                refuse_undecodable(os.path.join(found, name))
        raise
    listed = (
        ListedFile(
            real_path(str(root.joined(place))),
            int(info.size or 0),
            None if info.mtime_ns is None else datetime.fromtimestamp(info.mtime_ns / 1e9, UTC),
        )
        for place, info in zip(places, infos, strict=True)
        if info.type is pafs.FileType.File
    )
    return sorted(listed, key=lambda file: file.path)


def is_below(path: str, directory: str) -> bool:
    """Check if a path is below a directory; both as :func:`real_path` returns them."""
    return path.startswith(directory.rstrip("/") + "/")
