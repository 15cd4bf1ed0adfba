"""The errors that this library raises; all extend :class:`StateProcessorError`."""

from __future__ import annotations

from state_processor.serializers.errors import (
    CorruptSnapshotError,
    ForbiddenPathError,
    ForeignCodeError,
    InvalidRowError,
    MissingFileError,
    NotASnapshotError,
    NotFoundError,
    OptionError,
    ScratchSpaceError,
    StateMigrationError,
    StateProcessorError,
    UndecodableValueError,
    UndescribedClassError,
    UnknownSerializerError,
    UnsupportedFormatError,
    WriteError,
)

__all__ = [
    "CorruptSnapshotError",
    "ForbiddenPathError",
    "ForeignCodeError",
    "InvalidRowError",
    "MissingFileError",
    "NotASnapshotError",
    "NotFoundError",
    "OptionError",
    "ScratchSpaceError",
    "StateMigrationError",
    "StateProcessorError",
    "UndecodableValueError",
    "UndescribedClassError",
    "UnknownSerializerError",
    "UnsupportedFormatError",
    "WriteError",
]
