"""Build of a new savepoint: the drafts of its operators, checks, the two passes, and the commit."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from itertools import chain
from os import PathLike
from typing import Final, TypeVar
from uuid import uuid4

from state_processor.backends.files.location import Location, is_within
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.streams import streams_in_files
from state_processor.backends.read.stored_operator import find_operator
from state_processor.backends.state.key_groups import check_parallelism
from state_processor.backends.write.assembly import (
    WIDEST_VERSION,
    commit_savepoint,
    metadata_version,
    oldest_flink_version,
    refers_elsewhere,
    release_for,
)
from state_processor.backends.write.keyed_formats import CANONICAL_FORMAT, KeyedFormat, keyed_format
from state_processor.backends.write.staging import Staging, exit_on_sigterm
from state_processor.options.access import SnapshotAccess
from state_processor.options.keywords import SCRATCH
from state_processor.options.option import BOOLEAN, WHOLE_NUMBER
from state_processor.options.user_serializers import TaskSerializers, import_serializers
from state_processor.support.doors import Door, code_or_text, entered, spelled
from state_processor.support.errors import MissingFileError, NotFoundError, OptionError, StateMigrationError
from state_processor.support.mappings import map_values, without_keys
from state_processor.types.identifier import OperatorIdentifier
from state_processor.write.plan.draft import DEFAULT_MAX_PARALLELISM, OperatorChanges, OperatorDraft, OperatorMigration
from state_processor.write.plan.outcome import OperatorOutcome, WriteSettings, check_format, outcome_of
from state_processor.write.plan.reports import MigrationReport, OperatorSummary, StateReport, WriteSummary
from state_processor.write.plan.restorability import RegisteredStates, refusal, return_reports
from state_processor.write.plan.source_operator import SourceOperator, replaced_source
from state_processor.write.rows.row_columns import naming
from state_processor.write.tasks.migration import TypesOfStates, decide_migrations, types_by_path
from state_processor.write.tasks.operator_job import (
    changed_files,
    copy_unchanged,
    first_pass,
    has_dates_of_zone,
    keyed_target,
    written_operator,
)
from state_processor.write.tasks.passes import Engine, RowsPass, StateFiles

Uid = str | OperatorIdentifier
K = TypeVar("K", bound=Uid)
T = TypeVar("T")

DEFAULT_VERSION: Final = "1.20"
"""The Flink version that a new savepoint is for by default."""


_DEFAULT_ACCESS: Final = SnapshotAccess()
_FIRST_CHECKPOINT: Final = 1
_LAST_CHECKPOINT: Final = 2**63 - 2
"""Flink counts in a long, and the job that restores the savepoint needs the next number."""


class SavepointBuild:
    """Build of a savepoint. Operators are changed as drafts; nothing is written before :meth:`write`.

    ``snapshot``: the source savepoint, if there is one. ``max_parallelism``: number of key groups of new operators.
    ``flink_version``: the oldest Flink version that has to restore the savepoint; ``None`` for the version of the source
    savepoint. ``access``: options of opening snapshots. ``scratch``: directory for new files of RocksDB and ForSt; ``None`` for
    the default directory.
    """

    takes_arrow: bool = False
    """Whether users give rows of Arrow, so that messages name types of Arrow."""

    def __init__(
        self,
        snapshot: Snapshot | None,
        max_parallelism: int,
        flink_version: str | None,
        access: SnapshotAccess,
        scratch: str | PathLike[str] | None = None,
    ) -> None:
        self.snapshot = snapshot
        self.max_parallelism = max_parallelism
        self.access = access
        self.scratch = None if scratch is None else SCRATCH.kind.of_argument(SCRATCH.argument, scratch)
        self._flink_version = flink_version
        self._resized_to: int | None = None
        self._migrated_to: str | None = None
        self._unchecked: tuple[str, ...] = ()
        self._format: KeyedFormat = CANONICAL_FORMAT
        self._checkpoint_id = _FIRST_CHECKPOINT if snapshot is None else snapshot.metadata.checkpoint_id
        self._drafts: dict[str, OperatorDraft] = {}
        for operator in snapshot.metadata.operators if snapshot is not None else ():
            assert snapshot is not None
            identifier = OperatorIdentifier(operator.uid, operator.operator_id)
            source = SourceOperator(snapshot, operator)
            self._drafts[operator.operator_id] = OperatorDraft(identifier, self._flink_major, source)

    @classmethod
    def new(
        cls,
        max_parallelism: int = DEFAULT_MAX_PARALLELISM,
        flink_version: str = DEFAULT_VERSION,
        access: SnapshotAccess = _DEFAULT_ACCESS,
        scratch: str | PathLike[str] | None = None,
    ) -> SavepointBuild:
        """Start a savepoint without a source savepoint."""
        check_parallelism(1, max_parallelism)
        metadata_version(flink_version)
        import_serializers(access.serializers)
        return cls(None, max_parallelism, flink_version, access, scratch)

    @classmethod
    def from_existing(
        cls,
        path: str | PathLike[str],
        flink_version: str | None = None,
        access: SnapshotAccess = _DEFAULT_ACCESS,
        scratch: str | PathLike[str] | None = None,
        digest: str | None = None,
    ) -> SavepointBuild:
        """Start a savepoint as a copy of a savepoint or checkpoint. Its digest has to be ``digest`` if one is given."""
        metadata_version(flink_version)
        access = access.with_content()
        snapshot = access.open(path)
        if digest not in (None, snapshot.digest):
            raise replaced_source(snapshot)
        largest = max((o.max_parallelism for o in snapshot.metadata.operators), default=DEFAULT_MAX_PARALLELISM)
        return cls(snapshot, largest, flink_version, access, scratch)

    def open_source(self, access: SnapshotAccess, copied: Snapshot | None = None) -> Snapshot:
        """Open the source savepoint again, or a snapshot that an operator is copied from, with other options."""
        source = copied or self.snapshot
        assert source is not None  # changes to states of it have found them there
        if (snapshot := access.open(source.directory)).digest != source.digest:
            raise replaced_source(snapshot)
        return snapshot

    def reopened(self, draft: OperatorDraft) -> tuple[Snapshot, SnapshotAccess, OperatorIdentifier]:
        """Open the snapshot again that an operator comes from; return it, its options, and the operator in it."""
        assert draft.source is not None  # changes to its states have found them there
        access = draft.source.access or self.access
        return self.open_source(access, draft.source.snapshot), access, draft.source.identifier

    @property
    def _sources(self) -> tuple[Snapshot, ...]:
        """The source savepoint, and the snapshots that operators are copied from."""
        sources = {} if self.snapshot is None else {(self.snapshot.directory, self.snapshot.digest): self.snapshot}
        for draft in self.drafts:
            if draft.source is not None and draft.source.is_copied:
                copied = draft.source.snapshot
                sources.setdefault((copied.directory, copied.digest), copied)
        return tuple(sources.values())

    def check_source(self) -> None:
        """Refuse to go on if a source savepoint was replaced: types, copied bytes and shared files are of the former one."""
        for source in self._sources:
            if not source.is_current:
                raise replaced_source(source)

    @contextmanager
    def _naming_replacement(self) -> Iterator[None]:
        """If a file is missing because the source savepoint was replaced, raise an error that says so."""
        try:
            yield
        except MissingFileError:
            self.check_source()
            raise

    # Operators

    @property
    def drafts(self) -> tuple[OperatorDraft, ...]:
        """The operators of the new savepoint."""
        return tuple(self._drafts.values())

    def existing(self, uid: Uid) -> OperatorDraft:
        """Return the draft of an operator."""
        identifier = self._identifier(uid)
        if identifier.uid_hash not in self._drafts:
            raise NotFoundError.naming_nearest("operator", str(identifier), [str(d.identifier) for d in self.drafts])
        return self._draft(identifier)

    @contextmanager
    def change(self, uid: Uid, *, existing: bool = False, parallelism: int | None = None) -> Iterator[OperatorDraft]:
        """Change the draft of an operator, and add it if it is new.

        On failure the draft does not change. Errors name the operator.

        ``existing``: whether the operator has to be there. ``parallelism``: the parallelism of the operator; ``None`` leaves it
        unchanged.
        """
        draft = (self.existing(uid) if existing else self._draft(self._identifier(uid))).copy()
        door = entered(Door.FUNCTIONS) if self.takes_arrow else nullcontext()
        with door, naming(draft.label), self._naming_replacement():
            yield draft
            draft.set_parallelism(parallelism)
        self._drafts[draft.identifier.uid_hash] = draft

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Change several operators; on failure none of them changes."""
        before = dict(self._drafts)
        try:
            yield
        except BaseException:
            self._drafts = before
            raise

    def copy_operator(self, snapshot: Snapshot, access: SnapshotAccess, uid: Uid, as_uid: Uid | None = None) -> None:
        """Add an operator of another snapshot with all its state; see :meth:`~state_processor.SavepointWriter.copy_operator`."""
        named = OperatorIdentifier.of(uid)
        source = SourceOperator(snapshot, find_operator(snapshot, named.uid, named.uid_hash), access)
        same = named if named.uid_hash == source.operator.operator_id and named.uid is not None else source.identifier
        identifier = same if as_uid is None else OperatorIdentifier.of(as_uid)
        draft = OperatorDraft(identifier, self._flink_major, source, OperatorChanges(max_parallelism=self._resized_to))
        present = self._drafts.get(identifier.uid_hash)
        if present is not None and not present.is_empty:
            remedy = code_or_text("give as_uid, or call remove_operator for it first", "name another uid by --as")
            raise OptionError(f"{present.label} has state already, which would be lost; {remedy}")
        self._check_free(draft)
        self._drafts[identifier.uid_hash] = draft

    def remove_operator(self, uid: Uid) -> None:
        """Leave out an operator."""
        del self._drafts[self.existing(uid).identifier.uid_hash]

    def remove_state(self, uid: Uid, name: str) -> None:
        """Leave out a state of an operator."""
        with self.change(uid, existing=True) as draft:
            draft.remove(name)

    def rename_operators(self, uids: Mapping[K, Uid], *, replaces: bool = False) -> None:
        """Give operators other uids at once, by their uids or hashes. An operator may take the former uid of another.

        An operator that does not have state gives up its uid, and is left out: Flink does not look for it. ``replaces``: whether
        operators with state that have the new uids are left out, too.
        """
        new = map_values(OperatorIdentifier.of, self._by_operator(uids))
        assigned = {identifier.uid_hash for identifier in new.values()}
        present = without_keys(self._drafts, new)
        holders = {uid_hash: draft for uid_hash, draft in present.items() if draft.final_identifier.uid_hash in assigned}
        if replaces and all(draft.is_empty for draft in holders.values()):
            names = ", ".join(map(str, new.values()))
            raise OptionError(f"no operator with state is replaced: the source savepoint has none that is called {names}")
        with self.all_or_nothing():
            for uid_hash, draft in holders.items():
                if replaces or draft.is_empty:
                    del self._drafts[uid_hash]
            for uid_hash, identifier in new.items():
                self._drafts[uid_hash] = self._drafts[uid_hash].copy()
                self._drafts[uid_hash].changes.renamed = identifier
            for uid_hash in new:
                self._check_free(self._drafts[uid_hash])

    def _by_operator(self, values: Mapping[K, T]) -> dict[str, T]:
        """Return values for operators of the source savepoint by their hashes."""
        named: dict[str, K] = {}
        for uid in values:
            uid_hash = self.existing(uid).identifier.uid_hash
            if uid_hash in named:
                raise OptionError(f"{named[uid_hash]} and {uid} are the same operator; name it once")
            named[uid_hash] = uid
        return {uid_hash: values[uid] for uid_hash, uid in named.items()}

    def set_parallelism(self, uid: Uid, parallelism: int) -> None:
        """Set the parallelism of an operator."""
        draft = self.existing(uid)
        check_parallelism(parallelism, draft.max_parallelism)
        draft.changes.parallelism = parallelism

    def set_asynchronous(self, uid: Uid | None, asynchronous: bool) -> None:
        """Set whether an operator uses the asynchronous state API; ``None`` means all operators with keyed state."""
        asynchronous = BOOLEAN.of_argument("enabled", asynchronous)
        uids = [uid] if uid is not None else [d.identifier for d in self.drafts if d.source_keyed or d.changes.added]
        if not uids:
            raise OptionError("there is no operator with keyed state yet; add state first, or name the operator")
        for operator_uid in uids:
            with self.change(operator_uid) as draft:
                draft.changes.asynchronous = asynchronous

    def set_max_parallelism(self, max_parallelism: int, uid: Uid | None = None) -> None:
        """Set the max parallelism of an operator; ``None`` means all operators."""
        check_parallelism(1, max_parallelism)
        drafts = self.drafts if uid is None else (self.existing(uid),)
        for draft in drafts:
            if draft.parallelism > max_parallelism:
                raise OptionError(
                    f"{draft.label} has parallelism {draft.parallelism}, more than {max_parallelism}; "
                    + code_or_text("change it first, by with_parallelism", f"choose at least {draft.parallelism}")
                )
        for draft in drafts:
            draft.changes.max_parallelism = max_parallelism
        if uid is None:
            self.max_parallelism = self._resized_to = max_parallelism

    def has_keyed_state(self, uid: Uid, state: str) -> bool:
        """Return whether the source savepoint has a keyed state."""
        draft = self._drafts.get(self._identifier(uid).uid_hash)
        return draft is not None and draft.stored(state) in draft.source_keyed

    def _identifier(self, uid: Uid) -> OperatorIdentifier:
        """Return the identifier of an operator. The plan of a query may have another name for it: ``group-aggregate[5]``."""
        identifier = OperatorIdentifier.of(uid)
        if identifier.uid is None or self.snapshot is None or self.snapshot.query_plan is None:
            return identifier
        uid_hash = self.snapshot.query_plan.find(identifier.uid, self._drafts)
        return identifier if uid_hash is None else self._drafts[uid_hash].identifier

    def _draft(self, identifier: OperatorIdentifier) -> OperatorDraft:
        draft = self._drafts.get(identifier.uid_hash)
        if draft is None:
            draft = OperatorDraft(identifier, self._flink_major, changes=OperatorChanges(max_parallelism=self.max_parallelism))
            self._check_free(draft)
        elif draft.identifier.uid is None:
            draft.identifier = identifier
        return draft

    def _check_free(self, draft: OperatorDraft) -> None:
        """Refuse an operator with the identifier of another."""
        for draft_of_name in self.drafts:
            same = draft_of_name.final_identifier.uid_hash == draft.final_identifier.uid_hash
            if same and draft_of_name.identifier.uid_hash != draft.identifier.uid_hash:
                raise OptionError(
                    f"{draft_of_name.label} and {draft.label} would both be {draft.final_identifier}; choose another uid"
                    + code_or_text(". To exchange uids, give both to change_operator_identifiers", "")
                )

    # Migration

    def migrate(self, engine: Engine, flink_version: str, types: Mapping[Uid, TypesOfStates] | None = None) -> None:
        """Plan the migration to Flink 2.x; an engine reads the values. See :meth:`~state_processor.SavepointWriter.migrate`."""
        if not self._sources:
            raise OptionError("there is nothing to migrate: this savepoint does not start from another")
        if metadata_version(flink_version) < metadata_version("2.0"):
            self._return_to(flink_version, types)
            return
        named = map_values(types_by_path, self._by_operator(types or {}))
        with self._naming_replacement():
            migrations = decide_migrations(engine, self.drafts, named, self._task_serializers)
        self._flink_version = self._migrated_to = flink_version
        for draft in self.drafts:
            draft.migration = migrations.get(draft.identifier.uid_hash)
            draft.flink_major = self._flink_major

    def _return_to(self, flink_version: str, types: Mapping[Uid, TypesOfStates] | None) -> None:
        """Plan the return to a Flink before 2.0. It takes the bytes of states unchanged."""
        if types:
            raise OptionError("types: values are only converted to Flink 2.0 and later; leave types out")
        self._flink_version = self._migrated_to = flink_version
        for draft in self.drafts:
            if draft.source is not None:
                draft.migration = OperatorMigration(reports=return_reports(draft, release_for(flink_version)))
            draft.flink_major = self._flink_major

    def migration_report(self) -> MigrationReport:
        """Return the outcome of the migration for each state."""
        if self._migrated_to is None:
            raise OptionError("there is no migration to report on; call migrate first")
        reports = chain.from_iterable(draft.migration_reports for draft in self.drafts)
        return MigrationReport(self._migrated_to, tuple(reports))

    # Writing

    def choose_format(self, format: str, backend: str | None, *, share_files: bool = False) -> None:
        """Choose the format of keyed state; see :meth:`~state_processor.SavepointWriter.write`."""
        share_files = BOOLEAN.of_argument("share_files", share_files)
        self._format = keyed_format(format, backend, self._restoring_version, self.scratch, shares_files=share_files)

    def choose_checkpoint_id(self, checkpoint_id: int | None, *, allow_lower: bool = False) -> None:
        """Choose the number of the checkpoint; see :meth:`~state_processor.SavepointWriter.write`."""
        allow_lower = BOOLEAN.of_argument("allow_lower_checkpoint_id", allow_lower)
        first = _FIRST_CHECKPOINT if self.snapshot is None else self.snapshot.metadata.checkpoint_id
        chosen = first if checkpoint_id is None else WHOLE_NUMBER.of_argument("checkpoint_id", checkpoint_id)
        if not _FIRST_CHECKPOINT <= chosen <= _LAST_CHECKPOINT and checkpoint_id is not None:
            raise OptionError(f"{spelled('checkpoint_id')}={chosen}: expected a number from 1 to {_LAST_CHECKPOINT}")
        if chosen < first and not allow_lower:
            raise OptionError(
                f"{spelled('checkpoint_id')}={chosen}: the source savepoint is checkpoint {first}. A job that restores a "
                "lower number counts up from it again, and sinks that remember the last number drop what it "
                f"commits. Choose a number from {first} on, or set {spelled('allow_lower_checkpoint_id', True)}"
            )
        self._checkpoint_id = chosen

    def prepare(self, staging: Staging, owner: int | None = None) -> None:
        """Check what can be checked before rows are read, and make the directory; see :meth:`Staging.prepare`."""
        self.check_source()
        self._check()
        replaced = bytes(staging.present_metadata() or b"") if staging.replaces else b""
        for source in self._sources:
            if is_within(staging.directory, source.directory):
                same = is_within(source.directory, staging.directory)
                place = "is the source savepoint" if same else f"is inside the source savepoint {source.directory}"
                raise OptionError(f"{staging.directory} {place}. A source savepoint is never changed; write to another directory")
            for stream in streams_in_files(source.metadata.operators) if replaced else ():
                is_replaced = Location.parse(stream.path).name.encode() in replaced
                path = source.open(stream).path if is_replaced else None
                if path and is_within(path, staging.directory):
                    raise OptionError(
                        f"{staging.directory} has the file {path} of the source savepoint {source.directory}; "
                        "write to another directory"
                    )
        staging.prepare(owner)

    def first_pass(self, engine: Engine) -> RowsPass:
        """Return the first pass over the rows, for changes that have rows of one table only."""
        outcomes = self._outcomes()
        (outcome,) = (outcome for outcome in outcomes if outcome.changes.state_rows)
        (state_rows,) = outcome.changes.state_rows
        target = keyed_target(outcome, engine)
        assert target is not None  # it has the states of the rows
        return first_pass(outcome, target, state_rows)

    def write_to(
        self, path: str | PathLike[str], engine: Engine, *, overwrite: bool = False, access: SnapshotAccess | None = None
    ) -> WriteSummary:
        """Write into a directory; see :meth:`~state_processor.SavepointWriter.write`.

        ``access``: options of access to the directory; by default the options of the source savepoint.
        """
        storage = (access or self.access).storage()
        overwrite = BOOLEAN.of_argument("overwrite", overwrite)
        staging = Staging(os.fspath(path), uuid4().hex[:16], storage, replaces=overwrite)
        with exit_on_sigterm(engine.cancel):
            self.prepare(staging)
            try:
                return self.write(staging, engine)
            except BaseException as failure:
                staging.give_up(failure)
                raise

    def write(self, staging: Staging, engine: Engine) -> WriteSummary:
        """Write into a directory that is prepared. On failure the caller has to remove the files."""
        with self._naming_replacement():
            outcomes = self._outcomes()
            copies = copy_unchanged(engine, outcomes, staging)
            files: dict[tuple[str, str], StateFiles] = {}
            for outcome in outcomes:
                files.update(changed_files(outcome, engine))
            written = dict(zip(files, engine.write_files(list(files.values()), staging), strict=True))
            operators, summaries = zip(*(written_operator(outcome, copies, written) for outcome in outcomes), strict=True)
        self.check_source()
        metadata = commit_savepoint(
            staging,
            operators,
            version=self._metadata_version,
            checkpoint_id=self._checkpoint_id,
            master_states=self.snapshot.metadata.master_states if self.snapshot is not None else (),
            format=self._format.savepoint_format,
        )
        report = self.migration_report() if self._migrated_to is not None else None
        shared = refers_elsewhere(metadata)
        return WriteSummary(
            staging.directory,
            metadata.checkpoint_id,
            summaries,
            report,
            " and ".join(snapshot.directory for snapshot in self._sources) if shared else None,
            self._removed,
            self._changes_nothing(outcomes, summaries),
            self._time_zone if any(map(has_dates_of_zone, outcomes, (o.changes for o in summaries))) else None,
            self._unchecked,
            tuple(filter(None, (d.source.mixed_times for d in self.drafts if d.source is not None))),
        )

    @property
    def _removed(self) -> tuple[str, ...]:
        """The operators of the source savepoint that are left out."""
        remaining = {d.source.operator.operator_id for d in self.drafts if d.source is not None and not d.source.is_copied}
        operators = self.snapshot.metadata.operators if self.snapshot is not None else ()
        return tuple(o.label for o in operators if o.operator_id not in remaining)

    def _changes_nothing(self, outcomes: Sequence[OperatorOutcome], operators: Sequence[OperatorSummary]) -> bool:
        """Return whether the state of all operators is unchanged, despite the requested changes."""
        if self.snapshot is None or self._removed or self._migrated_to is not None:
            return False
        changes = chain.from_iterable(operator.changes for operator in operators)
        return all(change.is_empty for change in changes) and not any(outcome.is_reshaped for outcome in outcomes)

    def _outcomes(self) -> list[OperatorOutcome]:
        release = None if self._checked_version is None else release_for(self._checked_version)
        settings = WriteSettings(self._format, self._task_serializers, self._time_zone, release)
        return [outcome_of(draft, settings) for draft in self.drafts]

    @property
    def _time_zone(self) -> str:
        return self.access.time_zone or "UTC"

    @property
    def _task_serializers(self) -> TaskSerializers:
        return TaskSerializers.of_driver(self.access.serializers)

    @property
    def _restoring_version(self) -> str | None:
        """The oldest Flink version that has to restore the savepoint; ``None`` if it is unknown."""
        if self._flink_version is None and self.snapshot is not None:
            return oldest_flink_version(self.snapshot.metadata.version)
        return self._flink_version

    @property
    def _checked_version(self) -> str | None:
        """The Flink version that carried states are checked against; ``None`` if all have the format of the source."""
        majors = {draft.source.snapshot.flink_major for draft in self.drafts if draft.source is not None}
        if self._flink_version is not None or majors <= {self._flink_major}:
            return self._flink_version
        return self._restoring_version or DEFAULT_VERSION

    @property
    def _metadata_version(self) -> int:
        if self._flink_version is not None or self.snapshot is None:
            return metadata_version(self._flink_version)
        return max(self.snapshot.metadata.version, WIDEST_VERSION)

    @property
    def _flink_major(self) -> int:
        if self.snapshot is not None and self._flink_version is None:
            return self.snapshot.flink_major
        return int((self._flink_version or DEFAULT_VERSION).split(".")[0])

    def _check(self) -> None:
        if not self.drafts:
            raise OptionError("there is no operator to write; add state first")
        by_hash: dict[str, OperatorDraft] = {}
        for draft in self.drafts:
            check_parallelism(draft.parallelism, draft.max_parallelism)
            first = by_hash.setdefault(draft.final_identifier.uid_hash, draft)
            if first is not draft:
                raise OptionError(f"{first.label} and {draft.label} would both be {draft.final_identifier}; choose another uid")
        if self._migrated_to is not None:
            self._check_migration()
        self._check_release()
        for outcome in self._outcomes():
            check_format(outcome, self._flink_version)

    def _check_migration(self) -> None:
        """Refuse states that can't be migrated."""
        stuck: list[StateReport] = []
        for draft in self.drafts:
            stuck += draft.not_migrated
        if stuck:
            raise StateMigrationError(
                f"{len(stuck)} states can't be migrated to Flink {self._migrated_to}; do what each line says, or leave the state "
                "out with remove_state:\n" + "\n".join(map(str, stuck))
            )

    def _check_release(self) -> None:
        """Refuse states that the Flink of the label does not restore."""
        version = self._checked_version
        if version is None:
            return
        registered = RegisteredStates.of_savepoint(self.drafts)
        if obstacles := registered.obstacles(release_for(version)):
            raise StateMigrationError(refusal(obstacles, version, is_label=self._flink_version is not None))
        self._unchecked = registered.unchecked if self._flink_version is not None else ()
