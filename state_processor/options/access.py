"""Options of opening a snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from logging import getLogger
from os import PathLike
from typing import TYPE_CHECKING, Any, Final, Unpack

from state_processor.options.groups import SnapshotOptions
from state_processor.options.keywords import check_arguments
from state_processor.options.table import SNAPSHOT_OPTIONS, fields_of
from state_processor.options.task_registrations import import_serializers
from state_processor.serializers.doors import spelled
from state_processor.serializers.errors import OptionError
from state_processor.serializers.redaction import redacted_repr

if TYPE_CHECKING:
    from state_processor.backends.files.storage import Storage
    from state_processor.backends.metadata.snapshot import Snapshot
    from state_processor.backends.sql.plan import CompiledPlan

_LOG: Final = getLogger("state_processor")


@dataclass(frozen=True, slots=True)
class SnapshotAccess:
    """The options of opening a snapshot, checked.

    Parameters
    ----------
    path_mapping
        Recorded prefix to present prefix, for files of a moved checkpoint.
    serializers
        Modules to import, which register serializers.
    scratch
        Directory for copies of files; ``None`` for the default one.
    allow_paths
        Places outside of the storage of the snapshot that recorded paths may refer to.
    storage_options
        Settings of remote storage, which are not shown.
    plan
        Path or text of the compiled plan of the query that wrote the snapshot.
    uids
        Path of a file of uids, or the uids, for snapshots that record only the hashes of operators.
    time_zone
        The zone of the JVM of the job; ``None`` for UTC.
    """

    path_mapping: Mapping[str, str] = field(default_factory=dict)
    serializers: tuple[str, ...] = ()
    scratch: str | None = None
    allow_paths: tuple[str, ...] = ()
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    plan: str | None = field(default=None, repr=False)
    uids: str | tuple[str, ...] | None = None
    time_zone: str | None = None

    __repr__ = redacted_repr

    @classmethod
    def of(cls, **options: Unpack[SnapshotOptions]) -> SnapshotAccess:
        """Check keyword arguments.

        Raises
        ------
        OptionError
            If one has a value of another kind.
        """
        return cls.among(options)

    @classmethod
    def among(cls, arguments: Mapping[str, Any]) -> SnapshotAccess:
        """Check those of keyword arguments that are about opening a snapshot.

        Raises
        ------
        OptionError
            If one has a value of another kind.
        """
        own = {o.argument: arguments[o.argument] for o in SNAPSHOT_OPTIONS if o.argument in arguments}
        return cls(**fields_of(SNAPSHOT_OPTIONS, check_arguments(own)))

    def values(self) -> dict[str, Any]:
        """Return the values that are set, by keyword argument."""
        values = {o.argument: getattr(self, o.field or o.argument) for o in SNAPSHOT_OPTIONS}
        return {argument: value for argument, value in values.items() if value}

    def open(self, path: str | PathLike[str]) -> Snapshot:
        """Open a snapshot after importing the modules that register serializers.

        Raises
        ------
        NotASnapshotError
            If there is no snapshot; the message names those below the path.
        CorruptSnapshotError
            If ``_metadata`` is damaged.
        OptionError
            If a module can't be imported, the plan is none, or no operator has one of the uids.
        MissingFileError
            If there is no file with the plan or the uids.
        """
        from state_processor.backends.metadata.snapshot import open_snapshot  # slow to import, and not every worker opens one

        import_serializers(self.serializers)
        snapshot = open_snapshot(path, self.path_mapping, self.storage(), self.scratch, self.allow_paths)
        if self.time_zone is not None:
            snapshot = replace(snapshot, time_zone=self.time_zone)
        if self.plan is not None:
            snapshot = self._planned(snapshot, self.plan)
        return snapshot if self.uids is None else self._named(snapshot, self.uids)

    def _planned(self, snapshot: Snapshot, plan: str) -> Snapshot:
        from state_processor.backends.sql.naming import with_plan

        return with_plan(snapshot, read_plan(plan, snapshot.storage))

    def _named(self, snapshot: Snapshot, uids: str | tuple[str, ...]) -> Snapshot:
        from state_processor.backends.metadata.given_uids import some_of, with_uids

        named = with_uids(snapshot, read_uids(uids, snapshot.storage) if isinstance(uids, str) else uids)
        if named.unmatched_uids:
            number, names = len(named.unmatched_uids), some_of(named.unmatched_uids)
            what = f"{spelled('uids')}: no operator of {snapshot.directory}"
            _LOG.warning("%s has %s", what, f"the uid {names}" if number == 1 else f"{number:,} of the uids: {names}")
        return named

    def storage(self) -> Storage:
        """Return access to files."""
        from state_processor.backends.files.storage import Storage

        return Storage(self.storage_options)


def read_uids(path: str, storage: Storage) -> tuple[str, ...]:
    """Return the uids in a file: each line is one. Empty lines are skipped; spaces belong to the uid.

    Raises
    ------
    OptionError
        If the file contains no uid, or other bytes than UTF-8.
    MissingFileError
        If the file does not exist.
    """
    from state_processor.backends.files.location import Location

    try:
        text = bytes(storage.read_all(str(Location.given(path)), spelled("uids"))).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise OptionError(f"{spelled('uids', path)}: expected text in UTF-8, found other bytes at {error.start}") from None
    uids = tuple(dict.fromkeys(line for line in text.replace("\r\n", "\n").split("\n") if line))
    if not uids:
        raise OptionError(f"{spelled('uids', path)}: expected a uid on each line, found no uid")
    return uids


def read_plan(plan: str, storage: Storage) -> CompiledPlan:
    """Return a compiled plan from its text, or from the file that has it.

    Raises
    ------
    OptionError
        If it is none.
    MissingFileError
        If there is no file.
    """
    from state_processor.backends.files.location import Location
    from state_processor.backends.sql.plan import CompiledPlan

    is_text = plan.lstrip().startswith("{")
    text = plan if is_text else bytes(storage.read_all(str(Location.given(plan)))).decode("utf-8", "replace")
    return CompiledPlan.parse(text)
