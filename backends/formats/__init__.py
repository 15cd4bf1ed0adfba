"""Where entries lie: canonical and heap files, RocksDB, changelog, raw state; and what an entry consists of."""
