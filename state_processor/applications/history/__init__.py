"""Sizes of states in many snapshots, and what grows."""
