from __future__ import annotations

import pytest

from state_processor import OperatorIdentifier
from state_processor.errors import OptionError

ORDERS = "bc4197a480c92c793190a9f8c0afc54c"


def test_uid_has_the_hash_that_flink_gives_it() -> None:
    identifier = OperatorIdentifier.for_uid("orders")
    assert (identifier.uid, identifier.uid_hash, str(identifier)) == ("orders", ORDERS, "orders")


def test_hash_alone() -> None:
    identifier = OperatorIdentifier.for_uid_hash(ORDERS.upper())
    assert (identifier.uid, identifier.uid_hash, str(identifier)) == (None, ORDERS, ORDERS)


def test_text_is_a_uid_or_a_hash() -> None:
    assert OperatorIdentifier.of("orders") == OperatorIdentifier.for_uid("orders")
    assert OperatorIdentifier.of(ORDERS) == OperatorIdentifier.of(ORDERS.upper()) == OperatorIdentifier.for_uid_hash(ORDERS)
    assert OperatorIdentifier.for_uid(ORDERS).uid == ORDERS
    identifier = OperatorIdentifier.for_uid_hash(ORDERS)
    assert OperatorIdentifier.of(identifier) is identifier


@pytest.mark.parametrize("text", ["orders", "", ORDERS[:-1], ORDERS[:-1] + "g"])
def test_no_hash(text: str) -> None:
    with pytest.raises(OptionError, match="32 hexadecimal digits"):
        OperatorIdentifier.for_uid_hash(text)


def test_empty_uid() -> None:
    with pytest.raises(OptionError, match="uid is empty"):
        OperatorIdentifier.for_uid("")
