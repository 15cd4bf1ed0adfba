"""Errors of others' code: of libraries that parse or fetch bytes of a snapshot, and of code that users register."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from state_processor.support.errors import CorruptSnapshotError, ForeignCodeError, StateProcessorError


@contextmanager
def foreign_errors(context: str | Callable[[], str], kind: type[StateProcessorError] = CorruptSnapshotError) -> Iterator[None]:
    """Convert errors of other libraries in the block to ``kind``; errors of this library pass.

    Parameters
    ----------
    context
        Description of the data, for the message: operator, state, file, offset. A function is called only if an error occurs.
    kind
        The class of the error.
    """
    try:
        yield
    except StateProcessorError:
        raise
    except Exception as error:
        place = context if isinstance(context, str) else context()
        raise kind(f"{place}: {describe(error)}") from error


def describe(error: BaseException) -> str:
    """Return class and message of an error of another library, for a message of this one."""
    text = " ".join(str(error).encode("utf-8", "backslashreplace").decode().split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


@contextmanager
def noted_errors(place: str, failures: dict[str, str] | None) -> Iterator[None]:
    """Note the error of the block in ``failures``, by place; without ``failures``, errors pass."""
    if failures is None:
        yield
        return
    try:
        with foreign_errors(place):
            yield
    except StateProcessorError as problem:
        failures[place] = str(problem)


_OWN: Final = "state_processor."
_BASES: Final = f"{_OWN}serializers.base"


@contextmanager
def third_party_errors(
    context: str | Callable[[], str], kind: type[StateProcessorError] = ForeignCodeError, parts: Iterable[Any] = ()
) -> Iterator[None]:
    """Convert errors of users' serializers and snapshots in the block to ``kind``; other errors pass.

    ``context``: operator and state, for the message. A function is called only if an error occurs. ``kind``: the class of the
    error. ``parts``: serializers that the block uses. If an error occurs in this package, for example for a value of the wrong
    type, it is attributed to the first of them that is defined outside this package.
    """
    try:
        yield
    except StateProcessorError:
        raise
    except Exception as error:
        culprit = culprit_of(error) or next(foreign_classes(parts), None)
        if culprit is None:
            raise
        raise kind(message_of(context if isinstance(context, str) else context(), culprit, error)) from error


def message_of(context: str, culprit: str, error: BaseException) -> str:
    """Return the message about an error of code outside this package."""
    return f"{context}: {culprit} failed with {describe(error)}.\nThis code is not part of state-processor: correct it."


def foreign_classes(parts: Iterable[Any]) -> Iterator[str]:
    """Yield the names of classes in trees of serializers that are defined outside this package."""
    for part in parts:
        if _is_foreign(type(part)):
            yield qualified_name(type(part))
        yield from foreign_classes(part.children)


def is_foreign(code: Any) -> bool:
    """Check if a class or function is defined outside this package."""
    return not getattr(code, "__module__", _OWN).startswith(_OWN)


def qualified_name(code: Any) -> str:
    """Return the name of a class or function, with its module."""
    return f"{code.__module__}.{code.__qualname__}"


def _is_foreign(kind: type) -> bool:
    return is_foreign(kind) and any(base.__module__ == _BASES for base in kind.__mro__)


def culprit_of(error: BaseException) -> str | None:
    """Return the method in the traceback that is the innermost one of a foreign serializer or snapshot."""
    culprit, step = None, error.__traceback__
    while step is not None:
        frame = step.tb_frame
        owner = frame.f_locals.get("self", frame.f_locals.get("cls"))
        kind = owner if isinstance(owner, type) else type(owner)
        if _is_foreign(kind) and not frame.f_globals.get("__name__", "").startswith(_OWN):
            culprit = f"{qualified_name(kind)}.{frame.f_code.co_name}"
        step = step.tb_next
    return culprit
