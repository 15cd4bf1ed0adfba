"""The stores that a process keeps open."""

from __future__ import annotations

from state_processor.backends.formats import rocksdb_store


def close_stores() -> None:
    """Forget the open stores, as a new process has none."""
    with rocksdb_store._stores_lock:
        rocksdb_store._stores.clear()
