"""Choice of the format of keyed state by the names of format and state backend."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

from state_processor.backends.write.keyed_formats import CANONICAL_FORMAT, HeapFormat, KeyedFormat, StoreFormat
from state_processor.backends.write.store_writer import FORST
from state_processor.serializers.doors import changing, checked_choice, choice_of, spelled
from state_processor.serializers.errors import OptionError

FormatName = Literal["canonical", "native"]
BackendName = Literal["rocksdb", "forst", "hashmap"]

_FORMATS: Final = ("canonical", "native")
_BACKENDS: Final = ("rocksdb", "forst", "hashmap")
_OF_STORES: Final = {
    "share_files": "only files of RocksDB and ForSt can be shared",
    "scratch": "only new files of RocksDB and ForSt need scratch space",
}
"""Options that act only on the files of RocksDB and ForSt, with the reason."""
_FIRST_NATIVE: Final = (1, 15)
"""The first Flink that has native savepoints, and reads the handles of them."""
_FIRST_FORST: Final = (2, 0)
_FIRST_TO_DROP_TTL: Final = (2, 2)


def keyed_format(
    format: str,
    backend: str | None,
    flink_version: str | None,
    scratch: str | None,
    *,
    shares_files: bool = False,
) -> KeyedFormat:
    """Return the format with these names.

    ``format``, ``backend`` and ``shares_files``: see :meth:`~state_processor.SavepointWriter.write`. ``flink_version``: the
    oldest Flink version that has to restore the savepoint, if it is known. ``scratch``: directory for files on their way;
    ``None`` for the default one.
    """
    format = checked_choice("format", format, _FORMATS)
    backend = choice_of(backend, _BACKENDS) or backend
    if format == "canonical" or backend == "hashmap":
        _check_stores({"share_files": shares_files or None, "scratch": scratch}, format, backend)
    if format == "canonical":
        if backend is not None:
            native = spelled("format", "native")
            raise OptionError(f"{spelled('backend', backend)}: canonical savepoints have none; leave it out, or set {native}")
        return CANONICAL_FORMAT
    if backend not in _BACKENDS:
        backend_text = "" if backend is None else f", {spelled('backend', backend)}"
        naming = f"name the backend that restores it by {spelled('backend')}: {', '.join(_BACKENDS)}"
        raise OptionError(f"{spelled('format', 'native')}{backend_text}: {naming}")
    if flink_version is not None and _version(flink_version) < _FIRST_NATIVE:
        raise OptionError(f"flink_version={flink_version!r} can't restore native savepoints; the first that can is 1.15")
    if backend == "hashmap":
        return HeapFormat()
    if backend == FORST and flink_version is not None and _version(flink_version) < _FIRST_FORST:
        raise OptionError(f"flink_version={flink_version!r} has no ForSt; the first that has is 2.0")
    return StoreFormat(backend, scratch, shares_files)


def _check_stores(settings: Mapping[str, Any], format: str, backend: str | None) -> None:
    """Refuse options that act only on the files of RocksDB and ForSt."""
    for name, value in settings.items():
        if value is not None:
            raise OptionError(
                f"{spelled(name, value)} with {spelled('format', format)}, {spelled('backend', backend)}: {_OF_STORES[name]}; "
                f"set {spelled('format', 'native')} and {spelled('backend', 'rocksdb')} or forst, or leave {spelled(name)} out"
            )


def check_dropped_ttl(states: Iterable[str], flink_version: str | None, operator: str) -> None:
    """Refuse asynchronous states with time-to-live in backends where Flink leaves TTL out, unless Flink restores them.

    Flink: ``TtlAwareSerializer``, which all of its backends have since 2.2.
    """
    lasting = sorted(states)
    if lasting and flink_version is not None and _version(flink_version) < _FIRST_TO_DROP_TTL:
        raise OptionError(
            f"{operator}: asynchronous state has no time-to-live in other backends than ForSt, and Flink before 2.2 does not "
            f"restore state that has it ({', '.join(map(repr, lasting))}); flink_version={flink_version!r}. Leave the state out "
            f"with {changing('remove_state')}, write {spelled('format', 'native')} with {spelled('backend', 'forst')}, or leave "
            f"out {changing('with_async_state')}"
        )


def _version(text: str) -> tuple[int, ...]:
    """Return major and minor version; ``x`` means the first minor version."""
    return tuple(int(part) if part.isdigit() else 0 for part in re.split(r"[.-]", text)[:2])
