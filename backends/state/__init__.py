"""Registered states in headers, key groups, hash codes of keys."""
