"""Analysis of entries as bytes: differences between two snapshots, sizes of states and keys."""
