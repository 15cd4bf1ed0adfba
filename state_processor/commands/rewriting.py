"""Commands that write a savepoint from a snapshot, without Spark."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from state_processor.backends.files.location import Location
from state_processor.backends.read.read_options import Kind
from state_processor.commands.command import (
    UID,
    UID_HELP,
    Argument,
    Command,
    argument,
    arguments_of,
    command,
    flag,
    flag_values,
    flags,
    group,
    parameters_of,
    positive,
    repeated,
    several,
    switch,
)
from state_processor.commands.terminal import say
from state_processor.options.access import SnapshotAccess
from state_processor.options.keywords import SCRATCH
from state_processor.serializers.text_grammar import parse_json
from state_processor.support.errors import OptionError
from state_processor.types.identifier import OperatorIdentifier, read_mapping
from state_processor.write.build import SavepointBuild
from state_processor.write.plan.reports import WriteSummary
from state_processor.write.savepoint_writer import SavepointWriter
from state_processor.write.tasks.local_engine import LocalEngine

_ALL: Final = "*"

Change = Callable[[SavepointBuild, argparse.Namespace], None]


_COPIED: Final = several(
    argument("path", metavar="IN", help="directory of a savepoint or checkpoint; it is only read"),
    argument("target", metavar="OUT", help="directory of the new savepoint"),
    switch("--overwrite", "replace a savepoint in OUT when the new one is complete"),
    switch("--dry-run", "write to a directory for temporary files instead of OUT, and remove it: only the summary is shown"),
    argument("--checkpoint-id", type=positive, metavar="N", help="its checkpoint number (default: the number of IN)"),
    switch(
        "--allow-lower-checkpoint-id",
        "accept a lower number than the number of IN; sinks that remember their last number drop commits up to this number",
    ),
    flags(Kind.COPIES),
)
_FORMATS: Final = group(
    "options of writing a savepoint",
    argument("--format", choices=("canonical", "native"), help="the format of keyed state (default: %(default)s)"),
    argument("--backend", help="the state backend that restores a native savepoint"),
    switch(
        "--share-files",
        "do not copy unchanged files of RocksDB and ForSt: the native savepoint refers to the files of IN, and "
        "can't be restored without them",
    ),
    flag(SCRATCH),
)
_STATE: Final = argument("--state", required=True, help="name of the state")


def rewriting(
    name: str, text: str, *arguments: Argument, python: tuple[str, ...], formats: Argument = _FORMATS
) -> Callable[[Change], Command]:
    """Return a decorator that makes a command of a change: the command writes a changed copy of a savepoint.

    ``name`` and ``text``: the name of the command, and a noun phrase about the copy. ``*arguments``: its own arguments.
    ``python``: functions and methods that do the same in Python. ``formats``: the arguments that choose the format of the copy.
    """

    def decorate(change: Change) -> Command:
        defaults = {"change": change, "format": "canonical", "backend": None, "share_files": False, "scratch": None}
        common = (_COPIED, formats, lambda parser: parser.set_defaults(**defaults))
        return command(name, text, f"Write {text}.", *common, *arguments, python=python)(_write)

    return decorate


def by_method(name: str, text: str, method: Callable[..., SavepointWriter], *arguments: Argument) -> Command:
    """Return the command that calls a method of the writer. Its arguments follow as :func:`parameters_of` says.

    ``name``, ``text`` and ``*arguments``: as for :func:`rewriting`.
    """

    def change(plan: SavepointBuild, options: argparse.Namespace) -> None:
        method(SavepointWriter(plan), **arguments_of(method, options))

    return rewriting(name, text, *arguments, parameters_of(method), python=(f"SavepointWriter.{method.__name__}",))(change)


def _write(options: argparse.Namespace) -> None:
    say(str(written(options)))
    if options.dry_run:
        say(f"{options.target} was not written (--dry-run)")


def written(options: argparse.Namespace) -> WriteSummary:
    """Write the savepoint of a command, or into a directory that is removed if nothing may be written."""
    access = SnapshotAccess.among(flag_values(options))
    plan = SavepointBuild.from_existing(options.path, None, access, options.scratch)
    options.change(plan, options)
    plan.choose_format(options.format, options.backend, share_files=options.share_files)
    plan.choose_checkpoint_id(options.checkpoint_id, allow_lower=options.allow_lower_checkpoint_id)
    engine = LocalEngine(plan.scratch, access.threads)
    if not options.dry_run:
        return plan.write_to(options.target, engine, overwrite=options.overwrite)
    with TemporaryDirectory(dir=options.scratch, prefix="dry-run-") as directory:
        return plan.write_to(Path(directory, "savepoint"), engine)


@rewriting(
    "copy",
    "a self-contained canonical copy",
    formats=several(),
    python=("SavepointWriter.from_existing", "SavepointWriter.write"),
)
def _copy(plan: SavepointBuild, options: argparse.Namespace) -> None:
    """Change nothing."""


def _api(flag: str, api: str) -> Argument:
    return argument(
        flag,
        action="append",
        default=[],
        metavar="UID",
        help=f"the operator that uses {api} for keyed state in the job that restores the savepoint; {UID_HELP}; {_ALL!r} for "
        "all operators with keyed state; by default like in IN",
    )


@rewriting(
    "convert",
    "a copy in another format",
    _api("--async-state", "the asynchronous API (enableAsyncState)"),
    _api("--sync-state", "the synchronous API"),
    python=("SavepointWriter.write", "SavepointWriter.with_async_state"),
)
def _convert(plan: SavepointBuild, options: argparse.Namespace) -> None:
    """Set which operators use the asynchronous state API."""
    for uids, asynchronous in ((options.async_state, True), (options.sync_state, False)):
        for uid in uids:
            plan.set_asynchronous(None if uid == _ALL else plan.existing(OperatorIdentifier.of(uid)).identifier, asynchronous)


@rewriting(
    "rename-uid",
    "a copy with other uids of operators",
    argument("--from", dest="old", metavar="UID", help=UID_HELP),
    argument("--to", dest="new", metavar="UID", help="its new uid"),
    argument(
        "--mapping",
        metavar="FILE|JSON",
        help="rename several operators at once: the output of the command match, or a JSON object of old and new uids",
    ),
    switch("--replace", "leave out the operators that have the new uids, with their state"),
    python=("SavepointWriter.change_operator_identifier", "SavepointWriter.remove_operator"),
)
def _rename(plan: SavepointBuild, options: argparse.Namespace) -> None:
    if (options.mapping is None) == (options.old is None or options.new is None):
        raise OptionError("rename-uid: expected --from and --to, or --mapping")
    if options.mapping is None:
        plan.rename_operators({options.old: options.new}, replaces=options.replace)
        return
    try:
        text = options.mapping
        if not text.lstrip().startswith("{"):
            text = bytes(plan.access.storage().read_all(str(Location.given(text)))).decode()
        content = parse_json(text)
    except ValueError as error:
        raise OptionError(f"--mapping {options.mapping}: expected JSON: {error}") from None
    plan.rename_operators(read_mapping(content, options.mapping), replaces=options.replace)


_COPY_OPERATOR: Final = by_method(
    "copy-operator",
    "a copy with an operator of another snapshot",
    SavepointWriter.copy_operator,
    argument("--from", dest="other", required=True, metavar="SNAPSHOT", help="the other snapshot, which has the operator"),
    UID,
    argument("--as", dest="as_uid", metavar="UID", help="its uid in OUT (default: the same)"),
)


@rewriting(
    "drop-state",
    "a copy without a state, or without an operator",
    UID,
    argument("--state", help="name of the state; without it, the whole operator is dropped"),
    python=("SavepointWriter.remove_state", "SavepointWriter.remove_operator"),
)
def _drop(plan: SavepointBuild, options: argparse.Namespace) -> None:
    operator = OperatorIdentifier.of(options.uid)
    if options.state is None:
        plan.remove_operator(operator)
    else:
        plan.remove_state(operator, options.state)


_MIGRATE: Final = by_method(
    "migrate",
    "a copy for another major version of Flink",
    SavepointWriter.migrate,
    argument("--flink", dest="flink_version", metavar="VERSION", help="the Flink that restores the copy (default: %(default)s)"),
)
_MIGRATE_QUERY: Final = by_method(
    "migrate-query",
    "a copy that another query of Flink SQL continues",
    SavepointWriter.migrate_query,
    repeated("--drop", "an operator whose state is left out, such as 'join[5]'", metavar="OPERATOR"),
)
_EXPIRE: Final = by_method(
    "expire",
    "a copy without the expired values of a state",
    SavepointWriter.expire,
    UID,
    _STATE,
    argument("--ttl", required=True, metavar="DURATION", help="the time-to-live of the job, such as 7d or PT1H"),
    argument("--as-of", metavar="TIME", help="when values are expired (default: %(default)s)"),
)
_WITH_TTL: Final = by_method(
    "with-ttl",
    "a copy in which a state has time-to-live, or does not have it",
    SavepointWriter.with_ttl,
    UID,
    _STATE,
    switch("--off", "take time-to-live away instead of adding it", clears="enabled"),
)
_TOUCH: Final = by_method(
    "touch",
    "a copy with another time of last access of all values of a state",
    SavepointWriter.touch,
    UID,
    _STATE,
    argument("--as-of", metavar="TIME", help="the time of last access (default: %(default)s)"),
)
_RESIZE: Final = by_method(
    "set-max-parallelism",
    "a copy with another number of key groups",
    SavepointWriter.with_max_parallelism,
    argument(
        "--uid",
        help="only the operator with this uid or hash; operators of one chain need the same number (default: all operators)",
    ),
)
