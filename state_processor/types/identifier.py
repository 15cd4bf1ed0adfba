"""Identifiers of operators, and mappings of old to new ones."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from state_processor.backends.metadata.operator_id import operator_id
from state_processor.support.doors import spelled
from state_processor.support.errors import OptionError

MAPPING_VERSION: Final = 1
"""The version of the format of mapping files, which the command ``match`` writes."""

_HASH: Final = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class OperatorIdentifier:
    """An operator of a job, by its uid or by the hash of it (Flink: ``OperatorIdentifier``).

    A plain ``str`` instead of an identifier is a uid, or a uid hash if it has 32 hexadecimal digits. Operators without a uid
    have such a hash. :meth:`for_uid` is for a uid that looks like a hash.

    Examples
    --------
    >>> OperatorIdentifier.for_uid("orders").uid_hash
    'bc4197a480c92c793190a9f8c0afc54c'
    """

    uid: str | None
    uid_hash: str

    @classmethod
    def for_uid(cls, uid: str) -> OperatorIdentifier:
        """Return the identifier of the operator with a uid (Flink: ``forUid``).

        Raises
        ------
        OptionError
            If the uid is empty.
        """
        if not uid:
            raise OptionError("the uid is empty; expected the uid of an operator")
        return cls(uid, operator_id(uid))

    @classmethod
    def for_uid_hash(cls, uid_hash: str) -> OperatorIdentifier:
        """Return the identifier of the operator with a uid hash: 32 hexadecimal digits (Flink: ``forUidHash``).

        Raises
        ------
        OptionError
            If the text is not such a hash.
        """
        text = uid_hash.lower()
        if not _HASH.fullmatch(text):
            raise OptionError(f"uid hash {uid_hash!r}: expected 32 hexadecimal digits; give a uid as {spelled('uid')}")
        return cls(None, text)

    @classmethod
    def of(cls, operator: str | OperatorIdentifier) -> OperatorIdentifier:
        """Return an identifier unchanged, or the identifier of a uid or uid hash.

        Raises
        ------
        OptionError
            If it is neither.
        """
        if isinstance(operator, OperatorIdentifier):
            return operator
        if not isinstance(operator, str):
            raise OptionError(f"uid={operator!r}: expected a uid, a uid hash or an OperatorIdentifier")
        return cls.for_uid_hash(operator) if _HASH.fullmatch(operator.lower()) else cls.for_uid(operator)

    def __str__(self) -> str:
        return self.uid or self.uid_hash


def read_mapping(content: Any, place: str) -> dict[str, str]:
    """Return old and new identifiers of a mapping file, or of a JSON object of old and new uids."""
    if isinstance(content, Mapping) and content.get("version", MAPPING_VERSION) != MAPPING_VERSION:
        version = content["version"]
        raise OptionError(f"{place}: expected version {MAPPING_VERSION} of the format of mapping files, found {version!r}")
    uids = content.get("uids") if isinstance(content, Mapping) and "version" in content else content
    if not isinstance(uids, Mapping) or not all(isinstance(uid, str) and uid for uid in chain(uids, uids.values())):
        raise OptionError(f"{place}: expected a file of state-processor match, or a JSON object of old and new uids")
    if not uids:
        raise OptionError(f"{place}: expected at least one operator with another uid, found none")
    return dict(uids)
