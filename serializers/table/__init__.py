"""Flink SQL's types, binary rows and single values, and PyFlink's coders."""
