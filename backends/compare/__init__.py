"""Differences between two snapshots."""
