"""Native writes without a key while files of new stores are limited: ``python -m tests.faults.limited_store SOURCE DIR LIMIT …``.

Each write uses its own directory and prints its result in a line; the last write is unlimited.
"""

from __future__ import annotations

import resource
import signal
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

import pyarrow as pa

from state_processor.backends.write.store_writer import NewStore
from state_processor.options.access import SnapshotAccess
from state_processor.support.errors import StateProcessorError
from state_processor.write.build import SavepointBuild
from state_processor.write.plan import keyed_changes
from state_processor.write.rows.arrow_rows import ArrowRows
from state_processor.write.tasks import local_engine
from state_processor.write.tasks.local_engine import LocalEngine

UNLIMITED = resource.RLIM_INFINITY


def limited(method: Callable[..., Any], size: int) -> Callable[..., Any]:
    """Return the method with a limit for all files of the process; one thread writes."""

    @wraps(method)
    def call(store: NewStore, *arguments: Any, **options: Any) -> Any:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, UNLIMITED))
        try:
            return method(store, *arguments, **options)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (UNLIMITED, UNLIMITED))

    return call


def write(source: str, target: str) -> str:
    """Write without the key ``amelia``, and return what came of it."""
    plan = SavepointBuild.from_existing(source, None, SnapshotAccess())
    with plan.change("orders", existing=True) as draft:
        keyed_changes.delete_keys(draft, ArrowRows(pa.table({"key": ["amelia"]})))
    plan.choose_format("native", "rocksdb")
    try:
        plan.write_to(target, LocalEngine())
    except StateProcessorError as error:
        return f"{type(error).__name__} {' '.join(str(error).split())}"
    return "written"


def main(source: str, directory: str, *limits: str) -> None:
    """Write with each limit, and once without."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    local_engine._LOCAL_THREADS = 1
    methods = {name: vars(NewStore)[name] for name in ("add", "put", "delete", "close")}
    for limit in limits:
        for name, method in methods.items():
            setattr(NewStore, name, limited(method, int(limit)))
        print(write(source, f"{directory}/{limit}"), flush=True)
        for name, method in methods.items():
            setattr(NewStore, name, method)
    print(write(source, f"{directory}/last"))


if __name__ == "__main__":
    main(*sys.argv[1:])
