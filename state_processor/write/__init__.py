"""Writing of savepoints without Spark.

- ``build``: the savepoint as a whole; ``state_writer``, ``savepoint_writer``: the methods of a writer
- ``plan``: changes to operators, and their outcome
- ``rows``: rows of users; ``tasks``: the tasks that write files from them
"""
