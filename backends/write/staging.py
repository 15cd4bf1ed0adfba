"""The directory of a new savepoint until ``_metadata`` completes it: files named by the write; an abort removes them.

Files are written where they stay, since renaming costs a copy in an object store. Their names begin with the token of the write.
Nothing reads them before ``_metadata`` exists.

Several writes to a directory may run at the same time. The first write that is complete counts: it removes the files of the
other writes, and these fail. It also removes the files of writes whose process was killed. Two writes that commit at the same
moment see each other by their claims, and give up. Marks and claims contain the identity of their process.

Other processes act on claims and on ``_metadata`` as soon as they see them. These files are therefore written under another name
and moved. The answer of remote storage to the move of ``_metadata`` may be lost. Then the files of the write stay: if
``_metadata`` appears, the savepoint is complete; if not, the next write removes the files.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import threading
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import Final
from uuid import uuid4

from state_processor.backends.files.changes import FileSink, make_directory, move_file, remove_file
from state_processor.backends.files.location import Location
from state_processor.backends.files.ordered_threads import at_once
from state_processor.backends.files.storage import Entry, Storage, StoredFile
from state_processor.backends.metadata.snapshot_metadata import METADATA_FILE, read_metadata
from state_processor.support.doors import spelled
from state_processor.support.errors import MissingFileError, OptionError, StateProcessorError, WriteError, foreign_errors
from state_processor.support.mappings import without_none
from state_processor.support.redaction import redacted, redacted_repr

_TOKEN: Final = re.compile(r"[0-9A-Za-z]{4,64}")
_MARK: Final = "open"
_CLAIM: Final = "claim"
_PARTS: Final = "claim-part|metadata-part|open-part"
_OF_A_WRITE: Final = re.compile(
    rf"(?P<token>{_TOKEN.pattern})-(?:(?P<role>{_MARK}|{_CLAIM}|{_PARTS})|[0-9a-f]{{8}}-[a-z-]+-\d+-\w+)"
)


def is_name_of_write(name: str) -> bool:
    """Check if a file has a name that writes of this package give."""
    return bool(_OF_A_WRITE.fullmatch(name))


_DEAD_CLAIM: Final = timedelta(minutes=10)
"""A claim stands for as long as it takes to list a directory and to write ``_metadata``; this is much longer."""

_MARK_ATTEMPTS: Final = 5
_DELETING_THREADS: Final = 16
_SYNCING_THREADS: Final = 8

_committing: Final[set[str]] = set()
"""Tokens of writes that this process is making complete; claims of others that it has not managed to remove are void."""


@dataclass(frozen=True, slots=True)
class Strays:
    """Files of writes that the savepoint in the same directory does not refer to."""

    over: list[str]  # files of writes whose process has certainly ended
    # files of writes that go on, or whose process is on another machine. Files that do not name their write are open too, if the
    # directory does not have a readable ``_metadata``: they may belong to a savepoint.
    open: list[str]


@dataclass(frozen=True)
class Staging:
    """The directory of a savepoint that is being written; it can be pickled."""

    directory: str  # the savepoint's directory, as a path or URL
    token: str  # names this write: letters and digits, different from the tokens of other writes into the directory
    storage: Storage = field(default_factory=Storage)  # access to files
    replaces: bool = False  # whether the directory may hold a savepoint: it stays until the commit replaces its ``_metadata``
    # a local directory for the files between the passes; ``None`` for the directory of the savepoint. Its owner removes it.
    scratch: str | None = None
    makes_directory: bool = False  # whether the directory was made by this write, or by another one that is not over

    def __post_init__(self) -> None:
        if not _TOKEN.fullmatch(self.token):
            raise OptionError(f"token {self.token!r}: expected 4 to 64 letters and digits")
        object.__setattr__(self, "directory", str(Location.given(self.directory)))  # tasks have another working directory

    __repr__ = redacted_repr

    def prepare(self, owner: int | None = None) -> None:
        """Make the directory.

        ``owner``: the number of a process without which the write does not go on; by default this one.
        """
        self.sweep()
        if not self.replaces and self.storage.exists(self._path(METADATA_FILE)):
            replacing = spelled("overwrite", True)
            raise OptionError(f"{self.directory} holds a savepoint already; write to another directory, or set {replacing}")
        is_new = self.is_local and (not self.storage.is_directory(self.directory) or bool(self._of_others()))
        object.__setattr__(self, "makes_directory", is_new)
        make_directory(self.storage, self.directory)
        try:
            self._put_mark(this_process() if owner is None else identity_of(owner))
        except BaseException as failure:
            self.give_up(failure)
            raise

    def sweep(self) -> list[str]:
        """Remove files of writes whose process has ended, as far as this is visible, and return the names.

        Files that ``_metadata`` refers to stay, and so do files of writes that go on or whose process is on another machine.
        """
        over = self.strays().over
        self._clean(over)
        return over

    def strays(self) -> Strays:
        """Return the files of other writes that ``_metadata`` does not refer to.

        A write that becomes complete meanwhile first puts its claim, then removes its mark, then puts ``_metadata``, and removes
        its claim last: a write that is over at two times, with the same marks and claims, was over before ``_metadata`` is read.
        """
        before = self._of_others()
        over = {token for token, files in before.items() if all(map(self._is_left, _signs(files)))}
        now = self._of_others() if before else {}
        present = self.present_metadata() if now else None
        foreign = [token for token in now if not _is_named(token, present)]
        if foreign and present is not None and not _is_readable(present):
            over = set()  # which files it refers to is not known
        strays = Strays([], [])
        for token, files in now.items():
            signs = _signs(files)
            is_begun = any(not name.endswith("-part") for name in files)
            is_decidable = present is not None or bool(signs) or not is_begun  # these may be the files of a savepoint otherwise
            is_over = token in over and is_decidable and signs == _signs(before[token])
            (strays.over if is_over else strays.open).extend(files if token in foreign else signs)
        return strays

    def _of_others(self) -> dict[str, list[str]]:
        """Return the names of the files of other writes, by token."""
        by_token: dict[str, list[str]] = {}
        for entry in self._entries() if self.storage.is_directory(self.directory) else ():
            match = _OF_A_WRITE.fullmatch(entry.name)
            if match and match["token"] != self.token:
                by_token.setdefault(match["token"], []).append(entry.name)
        return by_token

    def _is_left(self, name: str) -> bool:
        """Return True if the process that made a mark or claim runs no more."""
        try:
            return is_gone(self.storage.read_all(self._path(name)))
        except MissingFileError:  # its write has just removed it
            return False

    @property
    def _claim(self) -> str:
        """A file that is there while this write becomes complete."""
        return f"{self.token}-{_CLAIM}"

    @property
    def _metadata_part(self) -> str:
        return f"{self.token}-metadata-part"

    @property
    def _mark(self) -> str:
        """A file that is there while the write goes on."""
        return f"{self.token}-{_MARK}"

    def is_open(self) -> bool:
        """Return whether the write goes on; files that a late task adds would never be removed."""
        self.storage.forget_listings(self.directory)
        return self.storage.exists(self._path(self._mark))

    def check_open(self) -> None:
        """Refuse to go on with a write that is over."""
        if not self.is_open():
            raise WriteError(
                f"{self.directory}: the write that this task belongs to is over: it was given up, or another one to this "
                "directory was complete before; or this machine does not see the directory as the driver does"
            )

    def new_file(self, operator_id: str, role: str, subtask: int) -> NewFile:
        """Return a new file of a task, which stays only if the task succeeds while the write goes on."""
        return NewFile(self, self.file_name(operator_id, role, subtask, uuid4().hex[:16]))

    def file_name(self, operator_id: str, role: str, subtask: int, attempt: str | int = 0) -> str:
        """Return the name of a subtask's file; attempts of one task have different ones, so that they never meet."""
        return f"{self.token}-{operator_id[:8]}-{role}-{subtask}-{attempt}"

    @property
    def is_local(self) -> bool:
        """True if the directory is in a file system of this machine, which others may share."""
        return Location.parse(self.directory).is_local

    def file(self, name: str) -> StoredFile:
        """Return a file that is complete, to be read."""
        return self.storage.open(self._path(name))

    def open(self, name: str) -> FileSink:
        """Open a new file."""
        return FileSink(self.storage, self._path(name))

    def remove_all_but(self, names: Collection[str]) -> None:
        """End the write, and remove its files except the named files: failed attempts have left them."""
        try:
            self.remove(self._mark)
        finally:
            self._remove_own(self._entries(), names)

    def _remove_own(self, entries: Iterable[Entry], names: Collection[str]) -> None:
        self._remove_all(e.name for e in entries if e.name.startswith(f"{self.token}-") and e.name not in names)

    def remove(self, name: str) -> None:
        """Remove a file of the directory, if it is there."""
        remove_file(self.storage, self._path(name))

    def _remove_all(self, names: Iterable[str]) -> None:
        """Remove files; one that can't be removed does not keep the others."""
        self.storage.filesystem(self.directory)  # connects, before threads do
        with ThreadPoolExecutor(1 if self.is_local else _DELETING_THREADS) as threads:
            removals = [threads.submit(self.remove, name) for name in names]
        for removal in removals:
            removal.result()

    def abort(self) -> None:
        """Remove all files of this write, and the directory that it has made; nothing if the write is, or may be, complete."""
        if self._is_complete() or self._is_in_doubt():
            return
        sign = f"{self._mark}-part"  # if the storage fails meanwhile, it tells the next write that it may remove the files
        with suppress(StateProcessorError):
            self.open(sign).close()
        self.remove_all_but([sign])
        self.remove(sign)
        self._remove_empty_directory()

    def discard(self, name: str) -> None:
        """Remove the file of a task that fails, and the directory: an abort may have run before the file was made."""
        self.remove(name)
        if not self.is_open():
            self._remove_empty_directory()

    def _remove_empty_directory(self) -> None:
        if self.makes_directory:
            with suppress(OSError):  # there is something in it, or it is gone
                os.rmdir(self.directory)

    def give_up(self, failure: BaseException) -> None:
        """Abort for a failure, and add the result to its message; an abort that fails does not hide it."""
        try:
            if self._is_complete():
                failure.add_note(f"{redacted(self.directory)} is complete nevertheless")
            elif self._is_in_doubt():
                failure.add_note(
                    f"the storage has not said whether {redacted(self.directory)} is complete; if it is not, the next write to "
                    "it removes what is there"
                )
            elif not isinstance(failure, (OSError, WriteError)) and not self.is_open():
                failure.add_note(
                    f"another write to {redacted(self.directory)} was complete before, and took away the files of this one"
                )
            self.abort()
        except (OSError, StateProcessorError) as problem:
            failure.add_note(redacted(f"files that begin with {self.token} may be left in {self.directory}: {problem}"))

    def _is_complete(self) -> bool:
        """Return whether the savepoint that is there is the one of this write."""
        return _is_named(self.token, self.present_metadata())

    def _is_in_doubt(self) -> bool:
        """Return whether the storage was told to put ``_metadata`` in place, and has not said that it did."""
        path = self._path(self._claim)
        return not self.is_local and self.storage.is_file(path) and bytes(self.storage.read_all(path)) == _NO_PROCESS

    def commit(self, metadata: bytes, sizes: Mapping[str, int], replaced: Iterable[str] = ()) -> None:
        """Write ``_metadata``: from then on this is a savepoint. Files of failed attempts and failed writes are removed.

        ``sizes``: the files that it refers to, with their lengths. ``replaced``: other files to remove afterwards: the files of
        the former savepoint.
        """
        _committing.add(self.token)
        try:
            self._remove_own(self._entries(), {*sizes, self._mark})
            self._put_whole(self._claim, this_process())
            entries = self._entries()
            self._check(entries, sizes)
            matches = list(without_none(_OF_A_WRITE.fullmatch(e.name) for e in entries))
            marks = [m[0] for m in matches if m["role"] == _MARK]
            # without ``_metadata``, files without a sign of their write stay: a job of Flink may have claimed their savepoint
            is_replacing = any(e.name == METADATA_FILE for e in entries)
            over = {m["token"] for m in matches if m["role"] or is_replacing}
            remaining = {m[0] for m in matches if m["token"] in over}
            self._remove_all(marks)
            self._remove_own(self._entries(), {*sizes, self._claim})  # what came in between
            self._sync(sizes)
            self._put_metadata(metadata)
            self._clean({*remaining, *replaced, self._metadata_part} - {*sizes, *marks, self._claim})
        except BaseException:
            with suppress(StateProcessorError):  # the first error is the one to tell
                if not self._is_in_doubt():
                    self.remove(self._claim)
            raise
        finally:
            _committing.discard(self.token)
        self._clean([self._claim])

    def _check(self, entries: Sequence[Entry], sizes: Mapping[str, int]) -> None:
        """Return whether this write may become complete, by a listing that was made after its claim."""
        sizes_by_name = {e.name: e.size for e in entries}
        matches = without_none(map(_OF_A_WRITE.fullmatch, sizes_by_name))
        rivals = [m[0] for m in matches if m["role"] == _CLAIM and self._rivals(m["token"])]
        if rivals:
            raise WriteError(
                f"{self.directory}: another write is becoming complete right now ({rivals[0]}); "
                "if it was killed, remove this file, or try again in ten minutes"
            )
        # no other write has a claim, so that none of them puts a savepoint there until this write is complete
        if not self.replaces and (METADATA_FILE in sizes_by_name or self.storage.exists(self._path(METADATA_FILE))):
            raise OptionError(f"{self.directory} has been filled with another savepoint meanwhile")
        if self._mark not in sizes_by_name:
            raise WriteError(f"{self.directory}: another write was complete before, and has taken away the files of this one")
        for name, size in sizes.items():
            if sizes_by_name.get(name) != size:
                stored_text = f"has {sizes_by_name[name]} bytes there" if name in sizes_by_name else "is not there"
                raise WriteError(
                    f"{self.directory}: {name} was written with {size} bytes and {stored_text}; "
                    "the driver and all workers have to see the same directory"
                )

    def _rivals(self, token: str) -> bool:
        """Return whether a claim is another's, and alive."""
        if token == self.token:
            return False
        claims = [self._path(f"{t}-{_CLAIM}") for t in (token, self.token)]
        try:
            owner = self.storage.read_all(claims[0])
        except MissingFileError:
            return True  # it has become complete since the directory was listed
        if is_gone(owner) or (owner == this_process() and token not in _committing):
            return False
        rival_time, claim_time = map(self.storage.modified, claims)
        return rival_time is None or claim_time is None or claim_time - rival_time < _DEAD_CLAIM

    def _put_mark(self, owner: bytes) -> None:
        """Put the mark. A local mark is never without its content: nobody could tell whether its process runs."""
        if not self.is_local:
            with self.open(self._mark) as sink:
                sink.write(owner)
            return
        for attempt in reversed(range(_MARK_ATTEMPTS)):
            try:
                self._put_whole(self._mark, owner)
                return
            except StateProcessorError:  # another write may have removed the part as left over, or the directory when empty
                if not attempt or self.storage.exists(self._path(f"{self._mark}-part")):
                    raise
                make_directory(self.storage, self.directory)

    def _put_whole(self, name: str, owner: bytes) -> None:
        with self.open(f"{name}-part") as sink:
            sink.write(owner)
        self._move(sink.name, name)

    def _put_metadata(self, metadata: bytes) -> None:
        with self.open(self._metadata_part) as sink:
            sink.write(metadata)
        self._sync([self._metadata_part])
        try:
            self._move(self._metadata_part, METADATA_FILE)
        except BaseException as failure:
            if self.is_local:
                raise
            with suppress(StateProcessorError):
                if self._is_complete() and isinstance(failure, StateProcessorError):
                    return  # only the answer was lost
            with suppress(StateProcessorError):
                self._put_whole(self._claim, _NO_PROCESS)
            raise
        self._sync([""])

    def _move(self, name: str, target: str) -> None:
        move_file(self.storage, self._path(name), self._path(target))

    def _sync(self, names: Iterable[str]) -> None:
        """Bring local files, or the directory for an empty name, to the disk: before that, a crash of the machine loses them."""
        if not self.is_local:
            return

        def sync(name: str) -> None:
            descriptor = os.open(self._path(name), os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

        try:
            at_once(sync, list(names), _SYNCING_THREADS)
        except OSError as problem:
            raise WriteError(f"{self.directory} can't be brought to the disk: {problem}") from problem

    def _clean(self, names: Collection[str]) -> None:
        """Remove files in the directory of a savepoint that is complete: the write succeeds even if this fails."""
        try:
            self._remove_all(names)
        except StateProcessorError as problem:
            message = redacted(f"{self.directory}: files that the savepoint has no need of are left: {problem}")
            warnings.warn(message, stacklevel=2)

    def _entries(self) -> list[Entry]:
        """Return the files of the directory, of whichever write."""
        self.storage.forget_listings(self.directory)
        return [e for e in self.storage.list(self.directory) if not e.is_directory]

    def present_metadata(self) -> memoryview | None:
        """Return the ``_metadata`` of the savepoint in the target directory."""
        self.storage.forget_listings(self.directory)
        path = self._path(METADATA_FILE)
        return self.storage.read_all(path) if self.storage.is_file(path) else None

    def _path(self, name: str) -> str:
        return str(Location.parse(self.directory).joined(name))


class NewFile:
    """New file of a task, for a ``with`` block. It is removed on failure, and if the write ends before the block."""

    def __init__(self, staging: Staging, name: str) -> None:
        staging.check_open()
        self._staging = staging
        self.sink = staging.open(name)

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


def _is_readable(metadata: memoryview) -> bool:
    try:
        with foreign_errors(METADATA_FILE):
            read_metadata(metadata, METADATA_FILE)
    except StateProcessorError:
        return False
    return True


def _signs(names: Iterable[str]) -> list[str]:
    """Return the marks and claims among the files of writes."""
    return sorted(name for name in names if name.endswith((f"-{_MARK}", f"-{_CLAIM}")))


def _is_named(token: str, metadata: memoryview | None) -> bool:
    """Return whether ``_metadata`` refers to files of a write."""
    return metadata is not None and f"{token}-".encode() in bytes(metadata)


# Processes that write: their identities, and their exit on SIGTERM. Schedulers end drivers by SIGTERM. A process that ends at
# once leaves its files. The next write to the directory removes them, but only on the same machine; nothing is written again in
# a container that has ended. So SIGTERM becomes an exit, which removes the files of the write.

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_STARTED: Final = 19

_NO_PROCESS: Final = b'{"machine": null}'
"""The identity of a process that is gone."""


def identity_of(pid: int) -> bytes:
    """Return the identity of a process of this machine, to be kept in a file."""
    return json.dumps({"machine": _machine(), "pid": pid, "started": _start_time(pid)}).encode()


def this_process() -> bytes:
    """Return the identity of this process."""
    return identity_of(os.getpid())


def is_gone(identity: bytes | memoryview) -> bool:
    """Return True if a process has certainly ended: it ran on this machine, and its number is free or another process's."""
    if bytes(identity) == _NO_PROCESS:
        return True
    try:
        owner = json.loads(bytes(identity))
        machine, pid, started = owner["machine"], int(owner["pid"]), owner["started"]
    except (ValueError, TypeError, KeyError):
        return False  # written by hand, or not yet complete
    if machine != _machine() or pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return (started is not None and _start_time(pid) != started) or _has_ended(pid)


def _machine() -> str:
    """Return an identity of this machine, since it was started, and of this container."""
    try:
        return f"{socket.gethostname()} {_BOOT_ID.read_text().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return socket.gethostname()


def _start_time(pid: int) -> str | None:
    """Return when a process started, which distinguishes it from earlier ones with its number; ``None`` if unknown."""
    fields = _stat(pid)
    return fields[_STARTED] if len(fields) > _STARTED else None


def _has_ended(pid: int) -> bool:
    """Return True if a process and all of its threads have ended, and its parent has not asked for its exit code yet."""
    try:
        return _stat(pid)[:1] == ["Z"] and len(os.listdir(f"/proc/{pid}/task")) == 1
    except OSError:
        return False


def _stat(pid: int) -> list[str]:
    """Return the fields of ``/proc/PID/stat`` behind the name; empty if the file does not exist."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


@contextmanager
def exit_on_sigterm(cancel: Callable[[], None]) -> Iterator[None]:
    """Raise ``SystemExit`` in the block when SIGTERM comes; a second one ends the process at once.

    Handlers that somebody else has set stay, and so does the behavior of blocks in other threads than the first, which get no
    signals.

    ``cancel``: ends the jobs that the block waits for.
    """

    def leave(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        try:
            cancel()
        finally:
            raise SystemExit(128 + number)

    is_free = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if not is_free:
        yield
        return
    signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
