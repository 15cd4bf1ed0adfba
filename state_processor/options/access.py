"""Options of opening a snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from logging import getLogger
from os import PathLike
from typing import TYPE_CHECKING, Any, Final, Unpack

from state_processor.backends.read.read_options import DIFFERENCES, OPENED, ROWS, VALUES, Kind, option
from state_processor.options.groups import SnapshotOptions
from state_processor.options.option import checked, options_of
from state_processor.options.user_serializers import ALLOWED_CONF, import_serializers
from state_processor.support.doors import flag_name, spelled
from state_processor.support.errors import OptionError
from state_processor.support.redaction import redacted_repr

if TYPE_CHECKING:
    from state_processor.backends.files.storage import Storage
    from state_processor.backends.metadata.snapshot import Snapshot

_LOG: Final = getLogger("state_processor")


@dataclass(frozen=True, slots=True)
class SnapshotAccess:
    """The options of opening a snapshot, checked."""

    path_mapping: Mapping[str, str] = option(
        "path_mapping",
        "Recorded prefix to present prefix, if files of a moved checkpoint are not found without it.",
        {},
        operand="OLD=NEW",
    )
    allow_paths: tuple[str, ...] = option(
        "paths",
        "Directories and URLs outside of the storage of the snapshot that paths recorded in it may refer to. The storage is the "
        "bucket or, for local snapshots, the directory and the job's checkpoint directory.",
        (),
        operand="PATH...",
    )
    serializers: tuple[str, ...] = option(
        "modules",
        "Modules that register your serializers; they are imported in every process that decodes or encodes values. As an option "
        f"of a data source, only modules that the owner of the session allows with `{ALLOWED_CONF}` or `register(spark, "
        "allow_serializers=…)`.",
        (),
        operand="MODULE",
        on=OPENED - {Kind.RAW, Kind.CHANNELS},
        holds_on=frozenset({Kind.RAW, Kind.CHANNELS}),
    )
    plan: str | None = option(
        "plan",
        "The compiled plan of the query of Flink SQL that wrote the snapshot: the file that `COMPILE PLAN` writes, or its text. "
        "Operators have the names and uids of the plan, and rows the columns of the query.",
        in_repr=False,
        operand="FILE",
        on=OPENED,
    )
    uids: str | tuple[str, ...] | None = option(
        "uids",
        "Uids that the job may use. Snapshots of Flink 1.x record only the hashes of uids: operators get the uid with their hash,"
        " and so do committers of sinks. Uids that match no operator are reported.",
        operand="FILE",
        on=OPENED,
    )
    storage_options: Mapping[str, Any] = option(
        "settings",
        "Settings of remote storage: the arguments of `pyarrow.fs.S3FileSystem` (`endpoint_override`, `access_key`, "
        "`secret_key`, `region`, …; for one bucket `bucket.NAME.access_key` and the like) or `GcsFileSystem`, or the storage "
        "options of the fsspec package. Without settings, `s3`, `s3a` and `s3n` use Spark's configuration "
        "(`spark.hadoop.fs.s3a.…`), then of the environment.",
        {},
        in_repr=False,
        operand="KEY=VALUE",
        prefix="storage.",
    )
    time_zone: str | None = option(
        "time_zone",
        "The time zone of the JVM of the job, such as `America/New_York`; UTC by default. A `SQL_DATE` or `SQL_TIME` is "
        "stored as the point in time when clocks in this zone show it. Rows of Flink SQL do not depend on the zone.",
        operand="ZONE",
        on=VALUES - {Kind.COUNTS} | {Kind.SIZES, Kind.REPORTS},
    )
    threads: int | None = option(
        "count",
        "Maximum number of threads that decode and encode. By default the variable `STATE_PROCESSOR_THREADS`, or the number of "
        "processors that the process may use, 16 at most. More threads need more memory. The order of rows is the same. A task "
        "of Spark has one thread.",
        least=1,
        operand="N",
        on=ROWS | DIFFERENCES | {Kind.SIZES, Kind.CHECKS, Kind.REPORTS, Kind.COPIES},
        holds_on=frozenset({Kind.LOOKUP}),
        code_only=True,
    )

    __repr__ = redacted_repr

    @classmethod
    def of(cls, **options: Unpack[SnapshotOptions]) -> SnapshotAccess:
        """Check keyword arguments."""
        return cls.among(options)

    @classmethod
    def among(cls, arguments: Mapping[str, Any]) -> SnapshotAccess:
        """Check the keyword arguments about opening a snapshot; others are ignored."""
        return cls(**checked(SNAPSHOT_OPTIONS, arguments))

    def values(self) -> dict[str, Any]:
        """Return the values that are set, by keyword argument."""
        return {o.argument: value for o in SNAPSHOT_OPTIONS if (value := getattr(self, o.argument))}

    def open(self, path: str | PathLike[str], storage: Storage | None = None) -> Snapshot:
        """Open a snapshot after importing the modules that register serializers.

        ``storage``: access to its files; by default with the storage options.
        """
        from state_processor.backends.metadata.snapshot import open_snapshot  # slow to import, and not every worker opens one

        if self.serializers:
            import_serializers(self.serializers)
        storage = storage or self.storage()
        snapshot = open_snapshot(path, self.path_mapping, storage, self.allow_paths)
        if self.time_zone is not None:
            snapshot = replace(snapshot, time_zone=self.time_zone)
        if self.threads is not None:
            snapshot = replace(snapshot, threads=self.threads)
        if self.plan is not None:
            from state_processor.backends.metadata.queries import query_descriptions

            snapshot = query_descriptions().with_plan(snapshot, text_of_plan(self.plan, storage))
        if self.uids is None:
            return snapshot
        return _named(snapshot, read_uids(self.uids, storage) if isinstance(self.uids, str) else self.uids)

    def with_content(self) -> SnapshotAccess:
        """Return these options with the content of the files with the plan and the uids, instead of their paths."""
        plan = None if self.plan is None else text_of_plan(self.plan, self.storage())
        return replace(self, plan=plan, uids=read_uids(self.uids, self.storage()) if isinstance(self.uids, str) else self.uids)

    def storage(self) -> Storage:
        """Return access to files."""
        from state_processor.backends.files.storage import Storage

        return Storage(self.storage_options)


SNAPSHOT_OPTIONS: Final = options_of(SnapshotAccess)
_SHARED: Final = ("path_mapping", "allow_paths", "uids")
"""Options of opening a snapshot that every command with a snapshot has, and whose values are short."""


def _named(snapshot: Snapshot, uids: tuple[str, ...]) -> Snapshot:
    """Return the snapshot with the uids of its operators. The log names the uids that match no operator."""
    from state_processor.backends.metadata.snapshot import some_of, with_uids

    named = with_uids(snapshot, uids)
    if named.unmatched_uids:
        number, names = len(named.unmatched_uids), some_of(named.unmatched_uids)
        problem = f"{spelled('uids')}: no operator of {snapshot.directory}"
        _LOG.warning("%s has %s", problem, f"the uid {names}" if number == 1 else f"{number:,} of the uids: {names}")
    return named


def read_uids(path: str, storage: Storage) -> tuple[str, ...]:
    """Return the uids in a file: each line is one. Empty lines are skipped; spaces belong to the uid."""
    from state_processor.backends.files.location import Location

    try:
        text = bytes(storage.read_all(str(Location.given(path)), spelled("uids"))).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise OptionError(f"{spelled('uids', path)}: expected text in UTF-8, found other bytes at {error.start}") from None
    uids = tuple(dict.fromkeys(line for line in text.replace("\r\n", "\n").split("\n") if line))
    if not uids:
        raise OptionError(f"{spelled('uids', path)}: expected a uid on each line, found no uid")
    return uids


def text_of_plan(plan: str, storage: Storage) -> str:
    """Return the text of a compiled plan, or of the file that has it."""
    from state_processor.backends.files.location import Location

    if plan.lstrip().startswith("{"):
        return plan
    return bytes(storage.read_all(str(Location.given(plan)))).decode("utf-8", "replace")


def flag_words(access: SnapshotAccess) -> tuple[str, ...]:
    """Return the flags of a command that opens a snapshot with the same options; settings of storage may be secret."""
    words: list[str] = []
    for shared in SNAPSHOT_OPTIONS:
        if shared.argument not in _SHARED:
            continue
        value = getattr(access, shared.argument)
        if isinstance(value, Mapping):
            value = [f"{old}={new}" for old, new in value.items()]
        if not isinstance(value, str) and not shared.is_repeated:
            continue  # the flag takes the name of a file
        for text in [value] if isinstance(value, str) else value or ():
            words += [flag_name(shared.argument), text]
    return tuple(words)
