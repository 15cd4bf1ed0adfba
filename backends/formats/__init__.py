"""Formats of keyed state: canonical and heap files, RocksDB, changelog, raw state; and the layouts of entries."""
