"""Commands that write a savepoint from a snapshot, without Spark."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, Final

from state_processor.backends.files.location import Location
from state_processor.backends.read.option import Kind
from state_processor.commands.arguments import UID_HELP, positive
from state_processor.commands.terminal import say
from state_processor.job.matching import read_mapping
from state_processor.options.access import SnapshotAccess
from state_processor.options.flags import add_flags, flag_values
from state_processor.options.table import SCRATCH
from state_processor.serializers.errors import OptionError
from state_processor.serializers.json_text import parse_json
from state_processor.types.identifier import OperatorIdentifier
from state_processor.write.arrow_writer import SavepointWriter
from state_processor.write.build import SavepointBuild
from state_processor.write.local_engine import LocalEngine
from state_processor.write.write_summary import WriteSummary

_ALL: Final = "*"

Change = Callable[[SavepointBuild, argparse.Namespace], None]


def add_commands(commands: Any) -> None:
    """Add the commands to the parsers of the command line."""
    _command(commands, "copy", "a self-contained canonical copy", _nothing)
    convert = rewriting_command(commands, "convert", "a copy in another format", _move)
    for flag, api in (("--async-state", "the asynchronous API (enableAsyncState)"), ("--sync-state", "the synchronous API")):
        convert.add_argument(
            flag,
            action="append",
            default=[],
            metavar="UID",
            help=f"the operator that uses {api} for keyed state in the job that restores the savepoint; {UID_HELP}; {_ALL!r} for "
            "all operators with keyed state; by default like in IN",
        )
    rename = rewriting_command(commands, "rename-uid", "a copy with other uids of operators", _rename)
    rename.add_argument("--from", dest="old", metavar="UID", help=UID_HELP)
    rename.add_argument("--to", dest="new", metavar="UID", help="its new uid")
    text = "rename all operators of a file: the output of the command match, or a JSON object of old and new uids"
    rename.add_argument("--mapping", metavar="FILE", help=text)
    drop = rewriting_command(commands, "drop-state", "a copy without a state, or without an operator", _drop)
    drop.add_argument("--uid", required=True, help=UID_HELP)
    drop.add_argument("--state", help="name of the state; without it, the whole operator is dropped")
    expire = _of_state(commands, "expire", "a copy without the expired values of a state", _expire)
    expire.add_argument("--ttl", required=True, metavar="DURATION", help="the time-to-live of the job, such as 7d or PT1H")
    expire.add_argument("--as-of", default="now", metavar="TIME", help="when values are expired (default: now)")
    ttl = _of_state(commands, "with-ttl", "a copy in which a state has time-to-live, or does not have it", _with_ttl)
    ttl.add_argument("--off", action="store_true", help="take time-to-live away instead of adding it")
    touch = _of_state(commands, "touch", "a copy with another time of last access of all values of a state", _touch)
    touch.add_argument("--as-of", default="now", metavar="TIME", help="the time of last access (default: now)")
    resize = rewriting_command(commands, "set-max-parallelism", "a copy with another number of key groups", _resize)
    resize.add_argument("max_parallelism", type=positive, metavar="N", help="the number of key groups")


def _of_state(commands: Any, name: str, text: str, change: Change) -> argparse.ArgumentParser:
    parser = rewriting_command(commands, name, text, change)
    parser.add_argument("--uid", required=True, help=UID_HELP)
    parser.add_argument("--state", required=True, help="name of the state")
    return parser


def rewriting_command(commands: Any, name: str, text: str, change: Change) -> argparse.ArgumentParser:
    """Add a command that writes a changed copy of a savepoint, in any format."""
    parser = _command(commands, name, text, change)
    group = parser.add_argument_group("options of writing a savepoint")
    group.add_argument("--format", choices=("canonical", "native"), help="the format of keyed state (default: %(default)s)")
    group.add_argument("--backend", help="the state backend that restores a native savepoint")
    group.add_argument(
        "--share-files",
        action="store_true",
        help="do not copy unchanged files of RocksDB and ForSt: the native savepoint refers to the files of IN, and "
        "can't be restored without them",
    )
    group.add_argument("--scratch", metavar="DIR", help=SCRATCH.doc.replace("`", ""))
    return parser


def _command(commands: Any, name: str, text: str, change: Change) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text, description=f"Write {text}.")
    parser.add_argument("path", metavar="IN", help="directory of a savepoint or checkpoint; it is only read")
    parser.add_argument("target", metavar="OUT", help="directory of the new savepoint")
    parser.add_argument("--overwrite", action="store_true", help="replace a savepoint in OUT when the new one is complete")
    parser.add_argument("--checkpoint-id", type=positive, metavar="N", help="its checkpoint number (default: the number of IN)")
    parser.add_argument(
        "--allow-lower-checkpoint-id",
        action="store_true",
        help="accept a lower number than the number of IN; sinks such as Iceberg remember their last number, and drop commits up "
        "to this number",
    )
    add_flags(parser, {Kind.COPIES})
    parser.set_defaults(run=_write, change=change, format="canonical", backend=None, share_files=False, scratch=None)
    return parser


def _write(options: argparse.Namespace) -> None:
    say(str(written(options)))


def written(options: argparse.Namespace) -> WriteSummary:
    """Write the savepoint of a command."""
    access = SnapshotAccess.of(**flag_values(options))
    plan = SavepointBuild.from_existing(options.path, None, access, options.scratch)
    options.change(plan, options)
    plan.choose_format(options.format, options.backend, share_files=options.share_files)
    plan.choose_checkpoint_id(options.checkpoint_id, allow_lower=options.allow_lower_checkpoint_id)
    return plan.write_to(options.target, LocalEngine(plan.scratch), overwrite=options.overwrite)


def _move(plan: SavepointBuild, options: argparse.Namespace) -> None:
    """Set which operators use the asynchronous state API."""
    for uids, asynchronous in ((options.async_state, True), (options.sync_state, False)):
        for uid in uids:
            plan.set_asynchronous(None if uid == _ALL else plan.existing(OperatorIdentifier.of(uid)).identifier, asynchronous)


def _nothing(plan: SavepointBuild, options: argparse.Namespace) -> None:
    """Change nothing."""


def _rename(plan: SavepointBuild, options: argparse.Namespace) -> None:
    if (options.mapping is None) == (options.old is None or options.new is None):
        raise OptionError("rename-uid: expected --from and --to, or --mapping")
    if options.mapping is None:
        plan.rename_operator(OperatorIdentifier.of(options.old), OperatorIdentifier.of(options.new))
        return
    try:
        content = parse_json(bytes(plan.access.storage().read_all(str(Location.given(options.mapping)))).decode())
    except ValueError as error:
        raise OptionError(f"--mapping {options.mapping}: expected JSON: {error}") from None
    plan.rename_operators(read_mapping(content, options.mapping))


def _drop(plan: SavepointBuild, options: argparse.Namespace) -> None:
    operator = OperatorIdentifier.of(options.uid)
    if options.state is None:
        plan.remove_operator(operator)
    else:
        plan.remove_state(operator, options.state)


def _expire(plan: SavepointBuild, options: argparse.Namespace) -> None:
    SavepointWriter(plan).expire(options.uid, options.state, options.ttl, options.as_of)


def _with_ttl(plan: SavepointBuild, options: argparse.Namespace) -> None:
    SavepointWriter(plan).with_ttl(options.uid, options.state, not options.off)


def _touch(plan: SavepointBuild, options: argparse.Namespace) -> None:
    SavepointWriter(plan).touch(options.uid, options.state, options.as_of)


def _resize(plan: SavepointBuild, options: argparse.Namespace) -> None:
    plan.set_max_parallelism(options.max_parallelism)
