"""A connector for a source that reads mailboxes: a package of its own, found by its entry point."""

import pyarrow as pa

from state_processor import connectors
from state_processor.connectors import LONG, TEXT, EnumeratedSplit, EnumeratorState, Format, Formats, ListOf, Struct

SPLIT = Struct.of(("mailbox", TEXT), ("next_mail", LONG))
WAITING = Struct.of(("splits", ListOf(SPLIT)))


def read_split(source):
    return to_row(SPLIT.read(source))


def to_row(content):
    return {"split_id": content["mailbox"], **content}


def read_waiting(source):
    return EnumeratorState(tuple(EnumeratedSplit(to_row(content), "UNASSIGNED") for content in WAITING.read(source)["splits"]))


def write_waiting(state, target):
    WAITING.write({"splits": [split.values for split in state.splits]}, target)


MAILBOXES = connectors.SourceConnector(
    name="mailboxes",
    fields=(pa.field("mailbox", pa.string()), pa.field("next_mail", pa.int64())),
    splits=Formats("splits of mailboxes", {1: (Format(read_split, SPLIT.write),)}),
    enumerator=Formats("enumerator of mailboxes", {1: (Format(read_waiting, write_waiting),)}),
    required=("mailbox", "next_mail"),
    complete=lambda row: {**row, "split_id": row["mailbox"]},
    layouts={"com.acme.MailboxSplitSerializer": {1: SPLIT}},
)
