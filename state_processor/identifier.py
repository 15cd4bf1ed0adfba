"""How users name an operator."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from state_processor.backends.metadata.operator_id import operator_id
from state_processor.serializers.errors import OptionError

_HASH: Final = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class OperatorIdentifier:
    """An operator of a job, by its uid or by the hash of it (Flink: ``OperatorIdentifier``).

    Wherever the library takes an operator, a plain ``str`` is a uid. Operators without a uid have a generated hash only.

    Examples
    --------
    >>> OperatorIdentifier.for_uid("orders").uid_hash
    'bc4197a480c92c793190a9f8c0afc54c'
    """

    uid: str | None
    uid_hash: str

    @classmethod
    def for_uid(cls, uid: str) -> OperatorIdentifier:
        """The operator to which the job gave this uid (Flink: ``forUid``).

        Raises
        ------
        OptionError
            If it is empty.
        """
        if not uid:
            raise OptionError("an operator's uid is empty; name an operator")
        return cls(uid, operator_id(uid))

    @classmethod
    def for_uid_hash(cls, uid_hash: str) -> OperatorIdentifier:
        """The operator with this uid hash: 32 hexadecimal digits (Flink: ``forUidHash``).

        Raises
        ------
        OptionError
            If it is no such hash.
        """
        text = uid_hash.lower()
        if not _HASH.fullmatch(text):
            raise OptionError(f"uid hash {uid_hash!r}: 32 hexadecimal digits are wanted; is it a uid?")
        return cls(None, text)

    @classmethod
    def of(cls, operator: str | OperatorIdentifier) -> OperatorIdentifier:
        """An identifier as it is, or the one of a uid."""
        return operator if isinstance(operator, OperatorIdentifier) else cls.for_uid(operator)

    def __str__(self) -> str:
        return self.uid or self.uid_hash
