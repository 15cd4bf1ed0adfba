"""Differences between two snapshots, and changes from checkpoint to checkpoint."""
