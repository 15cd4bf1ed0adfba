"""Whether every key of a base lies where rules for its ``hashCode`` put it: what tasks look for before anything is written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from state_processor.backends.formats.row_layout import KEY_GROUP_COLUMN
from state_processor.backends.formats.source import ScanRequest
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.read.keyed_splits import KeyedSplit
from state_processor.backends.state.hash_inference import HashRule, Misfit, misfits
from state_processor.backends.write.entry_encoder import KEY
from state_processor.portable_registrations import TaskSerializers
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.write.task_data import Batches, part_numbers, task_result

_COLUMNS: Final = frozenset({KEY, KEY_GROUP_COLUMN})
_LOSSLESS: Final = DecodeOptions(nanos="string", row_kind=True)


@dataclass(frozen=True)
class CheckKeys:
    """Holds all keys of a base against rules; rows are the numbers of ``parts``, to each of which it has a message.

    Parameters
    ----------
    snapshot
        The base, as it travels to tasks.
    parts
        Key groups of handles.
    rules
        The rules in question.
    max_parallelism
        Of the operator in the base.
    serializers
        Serializers that users register.
    """

    snapshot: Snapshot
    parts: tuple[KeyedSplit, ...]
    rules: tuple[HashRule, ...]
    max_parallelism: int
    serializers: TaskSerializers = field(default_factory=TaskSerializers)

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """The rules that keys of each part contradict, with such a key: ``dict[HashRule, Misfit]``."""
        self.serializers.enter()
        for number in part_numbers(batches):
            yield task_result(number, self._contradicted(self.parts[number]), 0)

    def _contradicted(self, part: KeyedSplit) -> dict[HashRule, Misfit]:
        source = part.handle.open(self.snapshot)
        key = source.header.key.restore_serializer()
        found: dict[HashRule, Misfit] = {}
        for meta in source.header.states:
            for batch in source.scan(ScanRequest(meta.name, _COLUMNS, _LOSSLESS, part.key_groups)):
                left = [rule for rule in self.rules if rule not in found]
                if not left:
                    return found
                groups = np.asarray(batch.column(KEY_GROUP_COLUMN))
                found |= misfits(key, left, batch.column(KEY), groups, self.max_parallelism)
        return found
