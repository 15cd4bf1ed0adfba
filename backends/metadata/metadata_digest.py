"""The digest of ``_metadata``, which tells whether a path has the same snapshot as before."""

from __future__ import annotations

from hashlib import sha256
from typing import Final

from state_processor.backends.files.location import Location
from state_processor.backends.files.storage import Storage, StoredFile
from state_processor.serializers.errors import MissingFileError

METADATA_FILE: Final = "_metadata"
LARGE_METADATA: Final = 64 << 20
"""A larger local ``_metadata`` is read in parts."""
_PIECE: Final = 4 << 20
_BEGINNING: Final = 64 << 10


def metadata_content(stored: StoredFile) -> memoryview | StoredFile:
    """Return the input of :func:`~state_processor.backends.metadata.snapshot_metadata.read_metadata`.

    A large local file consists mostly of inline state; it is read in parts. A remote file is read at once, because each part
    would be a request.
    """
    in_parts = stored.size > LARGE_METADATA and Location.parse(stored.path).is_local
    return stored if in_parts else stored.read(0, stored.size)


def content_digest(data: memoryview | StoredFile) -> str:
    """Return the digest of the content of ``_metadata``."""
    if isinstance(data, memoryview):
        return sha256(data).hexdigest()
    digest = sha256()
    for start in range(0, data.size, _PIECE):
        digest.update(data.read(start, min(_PIECE, data.size - start)))
    return digest.hexdigest()


def beginning_digest(data: memoryview | StoredFile) -> str:
    """Return the digest of the length and the beginning of ``_metadata``, for checks that many tasks make."""
    if isinstance(data, memoryview):
        return sha256(len(data).to_bytes(8) + data[:_BEGINNING]).hexdigest()
    return sha256(data.size.to_bytes(8) + data.read(0, min(_BEGINNING, data.size))).hexdigest()


def stored_metadata(directory: str, storage: Storage) -> StoredFile | None:
    """Open the ``_metadata`` that a directory has now; ``None`` without one."""
    return storage.open_if_file(str(Location.parse(directory).joined(METADATA_FILE)))


def stored_digest(directory: str, storage: Storage) -> str | None:
    """Return the digest of the ``_metadata`` that a directory has now; ``None`` without one."""
    stored = stored_metadata(directory, storage)
    return None if stored is None else content_digest(metadata_content(stored))


def check_not_replaced(storage: Storage, directory: str, beginning: str) -> None:
    """Raise an error if a directory has another snapshot now: files of the former one are gone.

    ``beginning``: the :func:`beginning_digest` of the former one. A snapshot may miss all its files: for each of them, all of a
    large ``_metadata`` would be read.
    """
    stored = stored_metadata(directory, storage) if beginning else None
    if stored is not None and beginning_digest(stored) != beginning:
        raise MissingFileError(
            f"{directory} was replaced since it was opened: its _metadata has another content, and files of the former snapshot "
            "are gone. Open it again"
        )
