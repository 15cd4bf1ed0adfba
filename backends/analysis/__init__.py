"""Entries as bytes: their comparison, and the sizes of states and keys."""
