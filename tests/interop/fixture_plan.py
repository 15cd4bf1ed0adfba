"""Cases of the fixtures, with their variants and the versions of Flink that write them."""

from __future__ import annotations

Plan = dict[str, tuple[str, ...]]

VERSIONS = ("1.20.5", "2.3.0")
CASES: Plan = {
    "orders": ("hashmap-canonical", "rocksdb-canonical", "hashmap-native", "rocksdb-native", "rocksdb-incremental"),
    "types": ("hashmap-canonical", "hashmap-native"),
    "windows": ("hashmap-canonical", "rocksdb-canonical"),
}
"""Stored as they are, by both of :data:`VERSIONS`: the README, the demo and the notebooks show them."""

MIGRATION: Plan = {"1.18.1": ("rocksdb-canonical",), "1.20.5": ("hashmap-native",)}
"""Variants of ``baskets``."""

SINKS = ("1.18.1", "1.20.5", "2.3.0")
"""The versions of Flink that write the savepoint of two file sinks: each has its own format of committables."""

WITH_LIBRARIES = ("sql-", "cep")
"""Beginnings of the names of cases whose jobs are of Flink's libraries, and which other jobs do not restore."""

_FORMATS = ("hashmap-canonical", "rocksdb-canonical", "hashmap-native", "rocksdb-native", "rocksdb-incremental")
_CHECKPOINTS = ("hashmap-checkpoint-compressed", "rocksdb-full", "rocksdb-full-compressed", "rocksdb-incremental-inline")
_FLAVOURS = (
    "hashmap-canonical-compressed",
    "rocksdb-heap-timers-canonical",
    "rocksdb-heap-timers-incremental",
    "rocksdb-native-files",
    "hashmap-filemerging",
    "rocksdb-filemerging",
)
_QUERIES: Plan = {
    "sql-group-agg": ("hashmap-canonical", "rocksdb-canonical", "rocksdb-native"),
    "sql-join": ("hashmap-canonical", "rocksdb-native"),
    "sql-group-by-types": ("hashmap-canonical",),
    "sql-deduplicate": ("rocksdb-canonical",),
    "sql-window": ("hashmap-canonical", "rocksdb-native"),
    **{f"sql-{query}": ("hashmap-canonical",) for query in ("top", "over", "sort", "retract-top", "group-window")},
}
_CHANGELOGS = ("hashmap-changelog", "rocksdb-changelog", "rocksdb-changelog-materialized", "hashmap-changelog-materialized")

PACKED: dict[str, Plan] = {
    "1.18.1": {
        "sql-group-agg": ("hashmap-canonical",),
        "cep": ("hashmap-canonical",),
        "keyed-all": ("rocksdb-canonical", "hashmap-native", "rocksdb-incremental"),
        "operator-state": ("hashmap-canonical", "rocksdb-incremental"),
    },
    "1.20.5": {
        "windows-kinds": ("hashmap-native", "rocksdb-canonical"),
        "evolution": ("hashmap-canonical", "rocksdb-incremental"),
        "cep": ("hashmap-canonical",),
        "sql-group-agg": ("hashmap-canonical", "rocksdb-canonical", "rocksdb-native"),
        "sql-join": ("rocksdb-native",),
        "keyed-all": (*_FORMATS, "hashmap-checkpoint-compressed", "rocksdb-changelog", "rocksdb-filemerging"),
        "operator-state": ("hashmap-canonical", "rocksdb-incremental"),
        "small": ("hashmap-canonical-p1", "rocksdb-canonical-p1", "rocksdb-canonical-maxp32768"),
        "no-uid": ("hashmap-canonical",),
        "rescaled": ("2to3-rocksdb-incremental",),
    },
    "2.0.2": {
        "keyed-all": ("hashmap-canonical", "rocksdb-native", "forst-incremental"),
        "operator-state": ("hashmap-native",),
        "asynchronous": ("forst-incremental",),
    },
    "2.3.0": {
        "windows-kinds": (*_FORMATS, "hashmap-checkpoint-compressed"),
        "in-flight": ("hashmap-unaligned", "rocksdb-incremental-unaligned"),
        "finished-tasks": ("hashmap-canonical", "rocksdb-incremental"),
        "evolution": ("hashmap-canonical", "rocksdb-canonical", "rocksdb-native", "rocksdb-incremental"),
        "cep": ("hashmap-canonical", "rocksdb-native"),
        **_QUERIES,
        "keyed-all": (*_FORMATS, *_CHECKPOINTS, *_FLAVOURS, *_CHANGELOGS, "forst-incremental", "forst-native"),
        "operator-state": (*_FORMATS, "hashmap-checkpoint-compressed", "hashmap-filemerging"),
        "small": (
            *("hashmap-canonical-p1", "rocksdb-canonical-p1", "hashmap-canonical-maxp512", "rocksdb-native-maxp512"),
            *("hashmap-canonical-maxp32768", "rocksdb-canonical-maxp32768", "rocksdb-native-maxp32768"),
        ),
        "asynchronous": (
            "forst-incremental",
            "forst-incremental-disaggregated",
            "forst-native",
            "rocksdb-native",
            "hashmap-native",
        ),
        "rescaled-asynchronous": ("2to3-forst-incremental", "2to3-claim-forst-incremental"),
        "empty-state": _FORMATS,
        "unicode-uid": ("hashmap-canonical",),
        "no-uid": ("hashmap-canonical",),
        "big-list": ("hashmap-canonical", "rocksdb-canonical", "rocksdb-incremental"),
        "rescaled": (
            *("2to3-rocksdb-incremental", "3to2-rocksdb-incremental", "2to3-hashmap-native"),
            *("2to2-claim-rocksdb-incremental", "2to3-claim-rocksdb-incremental", "3to2-claim-rocksdb-incremental"),
        ),
    },
}
"""Stored in archives, one for all variants of a case."""

KINDS = {("2.0.2", "asynchronous"): "untyped"}
"""Folders of archives that are not with the others: Flink 2.0 does not store what the keys of asynchronous maps are."""
