"""Tests of the state of Flink jobs: a plugin of pytest, and :func:`assert_state`.

The plugin has the fixtures ``savepoint``, which builds a savepoint from dictionaries, and ``state_schema``, which compares the
states of a savepoint with a file of the project.
"""

from __future__ import annotations

from state_processor.applications.testing.contents import assert_state

__all__ = ["assert_state"]
