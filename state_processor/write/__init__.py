"""Writing of savepoints without Spark.

- ``build``: the savepoint as a whole; ``state_writer``, ``savepoint_writer``: the methods of a writer
- ``plan``: changes to operators, and their outcome
- ``rows``: rows of users; ``tasks``: the tasks that write files from them

Packages that build an application import the names of ``__init__.pyi`` from here: the savepoint that is built, its operators,
rows and their columns. They may change in a minor version.
"""

from __future__ import annotations

from state_processor import lazy_names

__getattr__, __dir__ = lazy_names(__name__, "__init__.pyi")
