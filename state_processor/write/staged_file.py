"""New file of a task, which stays only if the task succeeds while its write goes on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Final
from uuid import uuid4

from state_processor.backends.files.changes import FileSink
from state_processor.backends.files.storage import Storage, StoredFile
from state_processor.backends.write.staging import Staging
from state_processor.serializers.errors import StateProcessorError

_OF_ALL: Final = "0" * 8
"""Stands for the operator in names of files that belong to several operators."""


class staged_file:  # noqa: N801 - used like a function
    """Context manager of a new file. It removes the file on failure, and if the write ended without this task."""

    def __init__(self, staging: Staging, operator_id: str, what: str, subtask: int) -> None:
        staging.check_open()
        self._staging = staging
        self.sink = staging.open(staging.file_name(operator_id, what, subtask, uuid4().hex[:16]))

    def __enter__(self) -> FileSink:
        return self.sink

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                self.sink.close()
                self._staging.check_open()
                return
        except StateProcessorError:
            self._discard()
            raise
        self._discard()

    def _discard(self) -> None:
        with suppress(StateProcessorError):  # the first error is the one to tell; the end of the write removes the file
            self.sink.close()
        with suppress(StateProcessorError):
            self._staging.discard(self.sink.name)


@contextmanager
def file_between_passes(staging: Staging, what: str, scratch: str | None) -> Iterator[tuple[FileSink, str]]:
    """Open a new file that pass 2 reads, and return it with the name for :func:`read_between_passes`.

    It is in the directory of the write, or in a local directory, whose owner removes it.
    """
    if scratch is None:
        with staged_file(staging, _OF_ALL, what, 0) as sink:
            yield sink, sink.name
        return
    path = os.path.join(scratch, f"{what}-{uuid4().hex}")
    with closing(FileSink(Storage(), path)) as sink:
        yield sink, path


def read_between_passes(staging: Staging, name: str) -> StoredFile:
    """Open a file that pass 1 has written."""
    return Storage().open(name) if os.path.isabs(name) else staging.file(name)
