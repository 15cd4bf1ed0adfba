"""Readers of keyed state, operator state and raw state; tables about a snapshot."""
