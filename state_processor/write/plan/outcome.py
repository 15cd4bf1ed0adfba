"""Outcome of the changes to one operator: the states that stay, the states that are written, where, and why.

:func:`outcome_of` is a pure function. The jobs of a write, the metadata of the new savepoint and the summary read its result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from state_processor.backends.state import state_headers
from state_processor.backends.state.descriptions import KeyedDescription, joined_registrations, keyed_header, with_key
from state_processor.backends.write.keyed_formats import KeyedFormat, check_dropped_ttl
from state_processor.options.user_serializers import TaskSerializers
from state_processor.serializers.format_versions import Release
from state_processor.support.doors import changing
from state_processor.support.errors import OptionError, UnsupportedFormatError
from state_processor.support.mappings import only_keys
from state_processor.types.identifier import OperatorIdentifier
from state_processor.write.plan.draft import OperatorChanges, OperatorDraft, OperatorMigration
from state_processor.write.plan.source_operator import SourceOperator


@dataclass(frozen=True)
class WriteSettings:
    """Settings of a write, for all operators."""

    format: KeyedFormat  # the format of keyed state
    serializers: TaskSerializers  # serializers that users register, as tasks get them
    time_zone: str  # the zone of the JVM of the job
    release: Release | None = None  # the oldest Flink that has to restore the savepoint; ``None`` if it is unknown


@dataclass(frozen=True)
class KeyedOutcome:
    """Keyed states and timers of an operator in the new savepoint; by default all of its files are copied, and not read."""

    is_written: bool = False  # whether files are written; else the files of the source savepoint are copied
    # the header of the files to write; ``None`` without keyed states, or if no file is written
    header: state_headers.KeyedHeader | None = None
    kept_states: tuple[str, ...] = ()  # the states of the source savepoint that are in the new one, possibly with changes
    in_place: frozenset[str] = frozenset()  # the kept states that stay, unchanged, in the files of the source savepoint
    # the kept states whose entries stay in the files of the source savepoint, below files with changes
    patched: frozenset[str] = frozenset()
    # the timers that stay in files of raw keyed state of the source savepoint: all of them, or none
    timers_in_place: frozenset[str] = frozenset()
    raw_timers: bool = False  # whether timers are written to raw keyed state
    # the reasons why files of the source savepoint that the format could keep do not stay
    reasons_to_rewrite: tuple[str, ...] = ()

    @property
    def ids(self) -> dict[str, int]:
        """The ids of the states in the files to write, by name."""
        return {} if self.header is None else {meta.name: i for i, meta in enumerate(self.header.states)}

    @property
    def passed_through(self) -> tuple[str, ...]:
        """The kept states whose entries are read and written again."""
        stay = self.in_place | self.patched | self.timers_in_place
        return tuple(name for name in self.kept_states if name not in stay)


@dataclass(frozen=True)
class OperatorStateOutcome:
    """List, union and broadcast states of an operator in the new savepoint; by default all of its files are copied."""

    is_written: bool = False  # whether files are written; else the files of the source savepoint are copied
    # the states of the source savepoint that are in the new one, with their registration in the source
    kept_states: Mapping[str, state_headers.StateMetaInfo] = field(default_factory=dict)


@dataclass(frozen=True)
class OperatorOutcome:
    """An operator of the new savepoint.

    ``before`` and ``identifier``: the identifier in the source savepoint, and in the new one. ``keyed`` and ``operator_state``:
    the states by sort.
    """

    label: str  # name for messages
    before: OperatorIdentifier
    identifier: OperatorIdentifier
    source: SourceOperator | None  # the operator in the source savepoint; ``None`` if it is new
    changes: OperatorChanges  # the changes that were asked for: rows, deletions and types
    migration: OperatorMigration | None  # the migration of the states of the source savepoint to Flink 2.x
    flink_major: int  # the major version of Flink that new state is written for
    settings: WriteSettings
    parallelism: int
    max_parallelism: int
    is_redistributed: bool  # whether key groups or subtasks differ from the source savepoint
    converted: frozenset[str]  # the kept states whose entries the migration converts
    keyed: KeyedOutcome
    operator_state: OperatorStateOutcome
    # names of all states, keyed or not; only the names in `_metadata` if files are copied without reading them
    states: tuple[str, ...]

    @property
    def is_written(self) -> bool:
        """True if files are written; else all files are copies."""
        return self.source is None or self.keyed.is_written or self.operator_state.is_written

    @property
    def is_reshaped(self) -> bool:
        """True if the operator is new, or more than its states changes."""
        requested = (self.changes.renamed, self.changes.coordinator, self.changes.asynchronous)
        is_new = self.source is None or self.source.is_copied
        return is_new or self.is_redistributed or any(setting is not None for setting in requested)


def outcome_of(draft: OperatorDraft, settings: WriteSettings) -> OperatorOutcome:
    """Return the outcome of the changes to an operator.

    ``draft``: the operator in the source savepoint, its changes, and its migration. Later changes to the draft don't change the
    outcome. ``settings``: the settings of the write, such as the format of keyed state.
    """
    draft = draft.copy()
    changes = draft.changes
    keyed, operator_state, converted, resized = KeyedOutcome(), OperatorStateOutcome(), frozenset[str](), False
    if draft.source is not None and _is_copied(draft, draft.source, settings):
        kept_states = draft.source.recorded_states
    else:
        comparison = _Comparison(draft, settings)
        keyed, operator_state = comparison.keyed(), comparison.operator_state()
        kept_states, converted, resized = tuple(comparison.kept_states), comparison.converted, bool(comparison.resized)
    return OperatorOutcome(
        label=draft.label,
        before=draft.identifier,
        identifier=draft.final_identifier,
        source=draft.source,
        changes=changes,
        migration=draft.migration,
        flink_major=draft.flink_major,
        settings=settings,
        parallelism=draft.parallelism,
        max_parallelism=draft.max_parallelism,
        is_redistributed=resized,
        converted=converted,
        keyed=keyed,
        operator_state=operator_state,
        states=(*kept_states, *changes.added, *changes.operator_states),
    )


def check_format(outcome: OperatorOutcome, flink_version: str | None) -> None:
    """Refuse states that the format of keyed state can't store.

    ``flink_version``: the oldest Flink version that has to restore it, if one was given.
    """
    source, changes, format = outcome.source, outcome.changes, outcome.settings.format
    if changes.asynchronous is None and outcome.keyed.header is None:
        return
    source_keyed = source.keyed_states if source is not None else {}
    if changes.asynchronous is not None and not (source_keyed or changes.added):
        raise OptionError(f"{outcome.label} has no keyed state, which {changing('with_async_state')} needs; is the uid right?")
    if changes.asynchronous and not format.registers_asynchronous:
        final: dict[str, KeyedDescription] = {name: source_keyed[name] for name in outcome.keyed.kept_states} | changes.added
        check_dropped_ttl((name for name, state in final.items() if state.has_ttl), flink_version, outcome.label)
    if outcome.keyed.header is not None:
        format.check_states(outcome.keyed.header.states, outcome.label)


def _is_copied(draft: OperatorDraft, source: SourceOperator, settings: WriteSettings) -> bool:
    """Return whether all files of an operator are copied, whatever states they have."""
    format = settings.format
    if draft.changes.changes_states or draft.migration is not None:
        return False
    if settings.release is not None and source.has_later_files(settings.release):
        return False
    if _changed_sizes(source, draft.parallelism, draft.max_parallelism) or not source.is_in(format):
        return False
    try:
        return format.registers_asynchronous or not source.is_asynchronous
    except UnsupportedFormatError:  # of serializers that are not known
        return True


class _Comparison:
    """Operator of the source savepoint in comparison with the changes that were asked for."""

    def __init__(self, draft: OperatorDraft, settings: WriteSettings) -> None:
        format, release = settings.format, settings.release
        self.source, self.changes, self.migration = draft.source, draft.changes, draft.migration
        self.format = format
        self.source_keyed, self.source_metas = draft.source_keyed, draft.source_metas
        self.kept_states = dict.fromkeys(filter(draft.keeps, draft.source_states))
        self.converted = frozenset(filter(draft.converts, self.kept_states))
        self.migrated = self.converted | (frozenset() if draft.migration is None else draft.migration.left_out)
        self.resized = _changed_sizes(draft.source, draft.parallelism, draft.max_parallelism)
        self.registration = StateRegistration(format, draft.source, draft.changes.asynchronous)
        self.has_later_tables = release is not None and draft.source is not None and draft.source.has_later_tables(release)
        self.has_later_lists = release is not None and draft.source is not None and draft.source.has_later_operator_state(release)

    def keyed(self) -> KeyedOutcome:
        """Return the outcome for keyed states and timers."""
        source, changes, registration = self.source, self.changes, self.registration
        states = tuple(name for name in self.source_keyed if name in self.kept_states)
        timers_in_place = self._timers_in_place() if not self.resized else frozenset()
        has_families = bool(self.source_keyed) and source is not None and self.format.keeps_families and source.is_in(self.format)
        causes = {
            "states are migrated": self.migration is not None,
            "erased bytes would stay in its files": changes.rewrites,
            "Flink 1 does not read tables of Flink 2": self.has_later_tables,
        }
        reasons = (*self.resized, *(reason for reason, applies in causes.items() if applies)) if has_families else ()
        in_families: frozenset[str] = frozenset()
        if has_families and source is not None and not reasons:
            elsewhere = source.timers if source.has_raw_timers or registration.raw_timers else frozenset()
            in_families = frozenset(states) - elsewhere
        patched = frozenset(filter(changes.changes_entries, in_families))
        is_written = bool(
            self.resized
            or changes.rewrites
            or (has_families and self.has_later_tables)
            or changes.added
            or changes.state_rows
            or changes.deletions
            or changes.removed & set(self.source_keyed)
            or (source is not None and self.source_keyed and not source.is_in(self.format))
            or self.migrated & set(self.source_keyed)
            or registration.changes
            or changes.retyped_key is not None
        )
        return KeyedOutcome(
            is_written,
            self._header(set(states) - timers_in_place) if is_written else None,
            states,
            in_families - patched,
            patched,
            timers_in_place,
            registration.raw_timers,
            reasons,
        )

    def operator_state(self) -> OperatorStateOutcome:
        """Return the outcome for list, union and broadcast states."""
        removed = self.changes.removed - set(self.source_keyed)
        migrated = self.migrated & set(self.source_metas)
        edited = self.changes.edits.keys() & self.kept_states.keys()
        changed = self.changes.operator_states or removed or migrated or edited or self.resized
        is_written = bool(changed or self.has_later_lists)
        return OperatorStateOutcome(is_written, only_keys(self.source_metas, self.kept_states))

    def _timers_in_place(self) -> frozenset[str]:
        """Return the timers that stay in files of raw keyed state: if none of them changes, all of them."""
        source, changes = self.source, self.changes
        if source is None or not source.has_raw_timers or not self.registration.raw_timers or self.migration is not None:
            return frozenset()
        if changes.retyped_key is not None:
            return frozenset()
        added = any(state.is_timer for state in changes.added.values())
        unchanged = all(name in self.kept_states and not changes.changes_entries(name) for name in source.timers)
        return source.timers if unchanged and not added else frozenset()

    def _header(self, states: set[str]) -> state_headers.KeyedHeader | None:
        """Return the header of the keyed state files to write; ``None`` without keyed states."""
        changes, old = self.changes, self.source.header if self.source is not None else None
        if self.migration is not None and self.migration.keyed is not None:
            old = self.migration.keyed.new
        if old is not None and changes.retyped_key is not None:
            old = with_key(old, changes.retyped_key)
        metas = joined_registrations(old, states, changes.added.values(), asynchronous=self.registration.is_asynchronous)
        if self.registration.raw_timers:  # timers last: the header of other files omits them
            metas.sort(key=lambda meta: meta.backend_type == state_headers.PRIORITY_QUEUE)
        if not metas:
            return None
        if old is not None:
            return state_headers.KeyedHeader(state_headers.KEYED_VERSION, False, old.key, tuple(metas))
        assert changes.key is not None
        return keyed_header(changes.key, metas)


def _changed_sizes(source: SourceOperator | None, parallelism: int, max_parallelism: int) -> tuple[str, ...]:
    """Return in words how parallelism and max parallelism differ from the source savepoint."""
    if source is None:
        return ()
    old = source.operator
    sizes = {"parallelism": (old.parallelism, parallelism), "max parallelism": (old.max_parallelism, max_parallelism)}
    return tuple(f"{name} {old} becomes {new}" for name, (old, new) in sizes.items() if old != new)


@dataclass(frozen=True)
class StateRegistration:
    """Registration of the keyed states of an operator in the new savepoint, and the place of its timers."""

    format: KeyedFormat
    source: SourceOperator | None  # the operator in the source savepoint, if it is there
    asynchronous: bool | None  # whether keyed state is in the asynchronous API; ``None`` if it is as in the source savepoint

    @property
    def is_asynchronous(self) -> bool:
        """True if states are registered for the asynchronous API."""
        if not self.format.registers_asynchronous:
            return False
        if self.asynchronous is not None:
            return self.asynchronous
        return self.source is not None and self.source.is_asynchronous

    @property
    def raw_timers(self) -> bool:
        """True if the job looks for its timers in raw keyed state: with the asynchronous API, or with timers on the heap."""
        if not self.format.keeps_raw_timers:
            return False
        source = self.source
        return self.is_asynchronous or (source is not None and source.has_raw_timers and not source.is_asynchronous)

    @property
    def changes(self) -> bool:
        """True if states of the source savepoint are registered as others, or their timers are elsewhere."""
        if self.source is None or not self.source.keyed_states:
            return False
        moved = self.source.timers and self.source.has_raw_timers != self.raw_timers
        return bool(moved) or self.source.is_asynchronous != self.is_asynchronous
