"""Findings about a snapshot as sentences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from state_processor.applications.report.contents import SnapshotContents
from state_processor.applications.report.distribution import Distribution, Subtasks
from state_processor.applications.report.largest_keys import LargestKeys
from state_processor.backends.analysis.entry_sizes import ENTRIES, SIZE
from state_processor.backends.metadata.given_uids import some_of
from state_processor.display.text_tables import count_text, size_text, text_of

_LARGE_KEY: Final = 0.05
"""The minimum share of an operator's bytes that makes a key a finding."""
_UNEVEN: Final = 1.5
"""The minimum size of the largest subtask, as a multiple of the mean, that is a finding."""
_LONGEST_KEY: Final = 200


def findings(contents: SnapshotContents) -> Iterator[str]:
    """Yield sentences about uids, growth, and about skew: the most bytes above a fair share come first.

    Skew is left out that costs nothing: key groups that are smaller than a subtask's share can be spread, and few keys leave key
    groups empty.
    """
    unmatched = contents.unmatched_uids
    if unmatched:
        number = len(unmatched)
        uids = f"the uid {some_of(unmatched)}" if number == 1 else f"{count_text(number)} of the given uids: {some_of(unmatched)}"
        yield f"No operator has {uids}."
    if contents.uids_hint:
        yield contents.uids_hint
    for row in contents.over_time.growth if contents.over_time is not None else ():
        if row["grows_without_bound"]:
            state = row["state"].strip("()") if row["state_name"] is None else f"state {row['state']}"
            yield f"{row['operator']}: {state} grows without a visible bound: {row['evidence']}."
    uneven = [
        (excess, f"{operator}: {text[0].lower()}{text[1:]}")
        for operator, groups in contents.key_groups.items()
        if groups.total
        for excess, text in _of_operator(groups, contents.subtasks[operator], contents.keys.get(operator))
    ]
    yield from (text for _, text in sorted(uneven, key=lambda excess_and_text: -excess_and_text[0]))


def _of_operator(groups: Distribution, subtasks: Subtasks, keys: LargestKeys | None) -> Iterator[tuple[float, str]]:
    """Yield sentences with the number of bytes of the largest part above its fair share."""
    share = groups.total / len(subtasks.key_groups)
    if keys is not None and keys.rows and keys.rows[0][SIZE] >= _LARGE_KEY * groups.total:
        yield keys.rows[0][SIZE], largest_key_text(keys, groups)
    if len(groups.sizes) > 1 and groups.most >= share:
        yield groups.most - groups.total / len(groups.sizes), key_groups_text(groups)
    if len(subtasks.key_groups) > 1 and (subtasks.sizes.empty or subtasks.sizes.skew >= _UNEVEN):
        yield subtasks.sizes.most - share, subtasks_text(subtasks)


def key_groups_text(groups: Distribution) -> str:
    """Describe the distribution over key groups: the number of empty ones, and the largest as a multiple of the mean."""
    return f"{_empty(groups, 'key group')}; the largest is {times_text(groups.skew)} the mean."


def subtasks_text(subtasks: Subtasks) -> str:
    """Describe the distribution over subtasks, and whether all of them own the same number of key groups."""
    sizes, owned = subtasks.sizes, subtasks.key_groups
    text = f"{_empty(sizes, 'subtask')}; the largest has {size_text(sizes.most)}, {times_text(sizes.skew)} the mean."
    numbers, counts = np.unique(owned, return_counts=True)
    if len(numbers) == 1:
        return text
    (few, larger), (with_few, with_more) = numbers.tolist(), counts.tolist()
    shares = f"{count_text(with_more)} of them own {count_text(larger)} key groups"
    return f"{text} {shares}, {count_text(with_few)} own {count_text(few)}."


def largest_key_text(keys: LargestKeys, groups: Distribution) -> str:
    """Describe the largest key."""
    first = keys.rows[0]
    entries = f"{count_text(first[ENTRIES])} {'entry' if first[ENTRIES] == 1 else 'entries'}"
    return (
        f"The key {key_text(first['key'])} has {size_text(first[SIZE])} in {entries}, "
        f"{share_text(first[SIZE] / groups.total)} of all bytes."
    )


def compared_text(keys: LargestKeys, groups: Distribution) -> str:
    """Describe the compared keys."""
    number = len(groups.sizes)
    if keys.compared == number:
        return f"All keys of the {count_text(number)} key groups were measured."
    return (
        f"The keys of the {count_text(keys.compared)} largest of {count_text(number)} key groups were measured, with "
        f"{share_text(keys.share)} of the bytes. A key of another key group has at most {size_text(keys.elsewhere)}."
    )


def key_text(key: Any) -> str:
    """Return a key in one line; a long key is cut, with its length."""
    text = text_of(key)
    return text if len(text) <= _LONGEST_KEY else f"{text[:_LONGEST_KEY]}… ({count_text(len(text))} characters)"


def times_text(multiple: float) -> str:
    """Return a multiple: ``7.5 times``."""
    return f"{multiple:,.1f} times"


def share_text(share: float) -> str:
    """Return a share in per cent. Only the whole is 100 %, and only zero is 0 %."""
    if not 0.0005 <= share < 0.9995 and 0 < share < 1:
        return "under 0.1 %" if share < 0.5 else "over 99.9 %"
    return f"{share * 100:.1f} %"


def _empty(parts: Distribution, name: str) -> str:
    number = len(parts.sizes)
    if not parts.empty:
        return f"None of {count_text(number)} {name}s is empty" if number > 1 else f"The only {name} has state"
    return f"{count_text(parts.empty)} of {count_text(number)} {name}s {'is' if parts.empty == 1 else 'are'} empty"
