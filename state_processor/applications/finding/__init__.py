"""A text, a number or a key in all state of snapshots: in values, and in the bytes that can't be decoded."""
