"""Bytes of a snapshot: ``_metadata``, state handles, storage and the layouts of each state backend. No Spark."""
