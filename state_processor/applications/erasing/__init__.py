"""Erasure of texts, keys and rows from all state of a snapshot, with a proof."""
