"""Every error is public, under the names that users import."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import state_processor as sp
from state_processor import errors
from state_processor.support import errors as defined


def below(error: type[Exception]) -> Iterator[type[Exception]]:
    """An error and those derived from it."""
    yield error
    for derived in error.__subclasses__():
        yield from below(derived)


def test_all_errors_are_public() -> None:
    known = {e.__name__: e for e in below(sp.StateProcessorError) if e.__module__ == defined.__name__}
    assert len(known) > 10
    assert {name: getattr(errors, name) for name in errors.__all__} == known
    assert {name: getattr(sp, name) for name in sp.__all__ if name.endswith("Error")} == known


@pytest.mark.spark
def test_what_is_public_is_there() -> None:
    assert [name for name in sp.__all__ if not hasattr(sp, name)] == []
    assert set(sp.__all__) <= set(dir(sp))
