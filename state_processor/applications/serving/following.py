"""The newest complete checkpoint of a directory. Requests continue with a newer checkpoint if Flink removes their files."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from os import PathLike
from typing import Any, Final, TypeVar

from state_processor import OperatorIdentifier, SnapshotInfo
from state_processor.errors import MissingFileError, NotASnapshotError, NotFoundError, StateProcessorError
from state_processor.options import SnapshotAccess
from state_processor.snapshots import DEPTH, Location, OpenFile, Snapshot, Storage, check_files, find_snapshots, stored_digest
from state_processor.states import KeyedDescription, KeyLookUp, RecentResults, Survey, compile_reading, find_operator, surveys
from state_processor.support import cached_property, map_values, process_lock, redacted

_LOG: Final = logging.getLogger("state_processor")
_TRIES: Final = 10
"""The maximal number of checkpoints that a request tries, if each is removed during the request."""
_JOB_DIGITS: Final = 32
"""Digits of a job in the path of a checkpoint; paths of savepoints have fewer."""

READING: Final = {"nanos": "string"}
"""Dates and times of answers have all digits."""
_LOOK_UPS: Final = 256
"""Operators and states whose plans and open files are kept for further keys."""

_WARM_OPERATORS: Final = 16
"""The maximal number of operators that are read before the first request."""
_EARLIER: Final = 4
"""Earlier snapshots that are kept open."""
_LAST_LOOK_SECONDS: Final = 5
"""Time in seconds that the end of following waits for a look that has begun: storage may not answer."""
_ANY_KEYS: Final = {"STRING": "", "LONG": -1, "INT": -1}
"""A key of each common type."""

_T = TypeVar("_T")


class ServedSnapshot:
    """A snapshot with open files.

    ``info``: the directory of the snapshot, and the time of its ``_metadata``.
    """

    def __init__(self, info: SnapshotInfo, snapshot: Snapshot) -> None:
        self._info = info
        self.snapshot = snapshot
        self._key_types: RecentResults[str, str] = RecentResults(_LOOK_UPS)
        self._look_ups: RecentResults[tuple[str, str | None], KeyLookUp] = RecentResults(_LOOK_UPS)

    @property
    def path(self) -> str:
        """The directory of the snapshot."""
        return self._info.path

    @property
    def checkpoint_id(self) -> int:
        """The number of the checkpoint."""
        return self.snapshot.metadata.checkpoint_id

    def is_of(self, info: SnapshotInfo) -> bool:
        """Return whether this has the path and the time of a snapshot that a search found."""
        return (self._info.path, self._info.time) == (info.path, info.time)

    @cached_property
    def surveyed(self) -> dict[str, Survey]:
        """The states of each operator, by the hash of its uid."""
        operators = self.snapshot.metadata.operators
        return {o.operator_id: survey for o, survey in zip(operators, surveys(self.snapshot, operators), strict=True)}

    def operator(self, uid: str) -> OperatorIdentifier:
        """Return an operator."""
        identifier = OperatorIdentifier.of(uid)
        find_operator(self.snapshot, identifier.uid, identifier.uid_hash)
        return identifier

    def key_type(self, uid: str) -> str:
        """Return the type of an operator's keys. All its states have the same type of keys."""
        return self._key_types.get(uid, self._find_key_type)

    def has_keys(self, uid: str, state: str) -> bool:
        """Return whether a state of an operator is keyed, so that its keys can be looked up."""
        operator = self.operator(uid)
        states, _ = self.surveyed[find_operator(self.snapshot, operator.uid, operator.uid_hash).operator_id]
        return state in states and isinstance(states[state][0], KeyedDescription)

    def look_up(self, uid: str, state: str | None) -> KeyLookUp:
        """Return the look-up of keys in an operator, in one state or in all."""
        return self._look_ups.get((uid, state), self._open_look_up)

    def warm_up(self) -> None:
        """Look up keys that hardly exist, so that no request waits for Numba, for kernels and for the opening of tables."""
        compile_reading()
        keyed = [o for o in self.snapshot.metadata.operators if _key_type_of(self.surveyed[o.operator_id]) in _ANY_KEYS]
        for operator in keyed[:_WARM_OPERATORS]:
            key = _ANY_KEYS[str(_key_type_of(self.surveyed[operator.operator_id]))]
            with suppress(StateProcessorError):  # which the request will raise
                self.look_up(operator.label, None).find(key)

    def _find_key_type(self, uid: str) -> str:
        operator = self.operator(uid)
        key_type = _key_type_of(self.surveyed[find_operator(self.snapshot, operator.uid, operator.uid_hash).operator_id])
        if key_type is not None:
            return key_type
        raise NotFoundError(f"the operator {operator} does not have keyed state: keys can't be looked up")

    def _open_look_up(self, place: tuple[str, str | None]) -> KeyLookUp:
        uid, state = place
        return KeyLookUp(self.snapshot, self.operator(uid), state, READING)


def _key_type_of(surveyed: Survey) -> str | None:
    return next((str(variants[0].key) for variants in surveyed[0].values() if isinstance(variants[0], KeyedDescription)), None)


class Followed:
    """The newest complete snapshot of a directory.

    ``directory``: a directory with the checkpoints of one job, or a snapshot. ``options``: keyword arguments of opening
    snapshots. Files with a plan or uids are read once. ``may_be_damaged``: start with snapshots of which none can be opened.
    """

    def __init__(self, directory: str | PathLike[str], options: Mapping[str, Any], *, may_be_damaged: bool = False) -> None:
        self._directory = directory
        self._hidden = _hidden_parts(Location.given(directory))
        self.access = SnapshotAccess.among(options).with_content()
        self._lock = process_lock()
        self._seen: list[SnapshotInfo] = []
        self._earlier: RecentResults[str, ServedSnapshot] = RecentResults(_EARLIER)
        jobs = sorted(
            {info.job_id for info in self._possible_snapshots() if info.job_id is not None and len(info.job_id) == _JOB_DIGITS}
        )
        if len(jobs) > 1:
            raise NotASnapshotError(
                f"{directory} has checkpoints of {len(jobs)} jobs: {', '.join(jobs[:5])}; serve the directory of one job"
            )
        self._current: ServedSnapshot | None = None
        try:
            self._current = self._newest(None)
        except NotASnapshotError:
            if not (may_be_damaged and self._seen):
                raise

    @property
    def current(self) -> ServedSnapshot:
        """The newest snapshot that was found.

        Raises
        ------
        NotASnapshotError
            None of the snapshots can be opened.
        """
        return self._current or self._newest(None)

    @property
    def can_be_opened(self) -> bool:
        """Whether a snapshot is open."""
        return self._current is not None

    @property
    def newest_path(self) -> str:
        """The directory of the newest snapshot: of the open one, or of the one that can't be opened."""
        return self._seen[0].path if self._current is None else self._current.path

    def ask(self, read: Callable[[ServedSnapshot], _T]) -> _T:
        """Return the result of a function for the current snapshot. If files were removed, call it with a newer snapshot."""
        for _ in range(_TRIES):
            served = self.current
            try:
                return read(served)
            except (MissingFileError, NotASnapshotError):
                if self.refresh() is served:
                    raise
        return read(self.current)

    @property
    def listed(self) -> list[SnapshotInfo]:
        """All snapshots that the last search found, newest first."""
        return self._seen

    def find(self, path: str) -> SnapshotInfo | None:
        """Return the listed snapshot of a path, also of a path of an answer; ``None`` if it is not listed."""
        return next((info for info in self._seen if path in (info.path, self.presentable(info.path))), None)

    def listed_at(self, path: str) -> SnapshotInfo:
        """Return the snapshot of a path; see :meth:`find`."""
        info = self.find(path)
        if info is not None:
            return info
        raise NotFoundError(f"{self._directory} does not have the snapshot {path!r}; Flink may have removed it")

    def presentable(self, content: Any) -> Any:
        """Return an answer without the credentials that the URL of the directory has. Paths of snapshots begin with it."""
        if not self._hidden:
            return content
        if isinstance(content, str):
            for part, instead in self._hidden.items():
                content = content.replace(part, instead)
            return content
        if isinstance(content, dict):
            return map_values(self.presentable, content)
        return list(map(self.presentable, content)) if isinstance(content, (list, tuple)) else content

    def at(self, path: str) -> ServedSnapshot:
        """Return the snapshot of a path, which may be an earlier one; see :meth:`listed_at`."""
        info = self.listed_at(path)
        if self._current is not None and self._current.is_of(info):
            return self._current
        served = self._earlier.get(info.path, lambda _: self._opened(info))
        return served if served.is_of(info) else self._opened(info)

    def refresh(self) -> ServedSnapshot:
        """Look for a newer snapshot, and return the newest."""
        with self._lock:
            self._current = self._newest(self._current)
            return self._current

    @contextmanager
    def follow(self, seconds: float) -> Iterator[None]:
        """Look for newer snapshots in a thread, every ``seconds`` seconds, while the context lasts."""
        stopped = threading.Event()

        def run() -> None:
            while not stopped.wait(seconds):
                try:
                    self.refresh()
                except Exception as problem:  # such as storage that does not answer: the last snapshot is served meanwhile
                    if self._current is not None:
                        _LOG.warning("%s: no newer checkpoint can be opened: %s", self._directory, problem)

        thread = threading.Thread(target=run, name="follow checkpoints", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stopped.set()
            thread.join(_LAST_LOOK_SECONDS)

    def _possible_snapshots(self) -> list[SnapshotInfo]:
        """Return the snapshots that may be complete, newest first. Only new and changed ``_metadata`` files are read."""
        self._seen = find_snapshots(self._directory, self.access.storage(), DEPTH, self._seen).snapshots
        return [info for info in self._seen if info.is_complete is not False]

    def _newest(self, current: ServedSnapshot | None) -> ServedSnapshot:
        """Open the newest complete snapshot; return the current one if it is the newest, or no other can be opened."""
        problem: StateProcessorError | None = None
        for info in self._possible_snapshots():
            if current is not None and current.is_of(info) and self._is_stored(current):
                return current
            try:
                return self._opened(info)
            except StateProcessorError as reason:  # removed in the meantime, or not complete yet
                problem = problem or reason
        if current is not None:
            return current
        problem = problem or self._problem_of_newest()
        raise NotASnapshotError(f"{self._directory} does not have a complete snapshot" + (f": {problem}" if problem else ""))

    def _problem_of_newest(self) -> StateProcessorError | None:
        """Return why the newest snapshot can't be opened, though none is complete: its ``_metadata`` may be damaged."""
        try:
            for info in self._seen[:1]:
                self._opened(info)
        except StateProcessorError as problem:
            return problem
        return None

    def check_stored(self, served: ServedSnapshot) -> None:
        """Refuse an answer that was read by path, if the path has another snapshot by now.

        Raises
        ------
        MissingFileError
            The snapshot was replaced or removed.
        """
        if not self._is_stored(served):
            raise MissingFileError(f"{served.path} was replaced or removed while it was read")

    def _is_stored(self, served: ServedSnapshot) -> bool:
        """Return whether `_metadata` has the same content: a path can get another snapshot with the same time."""
        return stored_digest(served.path, self.access.storage()) == served.snapshot.digest

    def _opened(self, info: SnapshotInfo) -> ServedSnapshot:
        served = ServedSnapshot(info, open_kept(self.access, info.path))
        _ = served.surveyed  # headers are read before the first request
        return served


def _hidden_parts(location: Location) -> dict[str, str]:
    """Return the parts of a URL that have credentials, and what answers have instead."""
    address, query = f"{location.scheme}://{location.authority}", f"?{location.query}"
    parts = {address: redacted(address), query: redacted(f"{location.scheme}://{query}").partition("://")[2]}
    return {part: instead for part, instead in parts.items() if part != instead}


def open_kept(access: SnapshotAccess, path: str) -> Snapshot:
    """Open a snapshot and all its files, which stay readable if Flink removes them."""
    snapshot = access.open(path, KeptFiles(access.storage_options))
    checked = check_files(snapshot)
    if checked.problems:
        raise MissingFileError(checked.problems[0])
    return snapshot


class KeptFiles(Storage):
    """Access to the files of one checkpoint. A file is opened once, and stays open as long as this object is in use."""

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        super().__init__(options)
        self._files_by_name: dict[str, OpenFile] = {}
        self._lock = process_lock()

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError("open files of a server can't be pickled")

    def _open(self, path: str | os.PathLike[str], context: str) -> OpenFile:
        name = str(Location.parse(path))
        file = self._files_by_name.get(name)
        if file is None:
            opened = super()._open(path, context)
            with self._lock:
                file = self._files_by_name.setdefault(name, opened)
        return file

    def size_if_file(self, path: str | os.PathLike[str]) -> int | None:
        """Return the length of a file, also after its removal; ``None`` if it is not a file."""
        file = self._files_by_name.get(str(Location.parse(path)))
        return super().size_if_file(path) if file is None else file.size

    def is_file(self, path: str | os.PathLike[str]) -> bool:
        """Return whether a path is a file, or was one when it was opened."""
        return str(Location.parse(path)) in self._files_by_name or super().is_file(path)
