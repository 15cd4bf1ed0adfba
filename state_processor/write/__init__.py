"""Writing of savepoints without Spark.

- ``build``: the savepoint as a whole; ``state_writer``, ``savepoint_methods``: the methods of a writer
- ``plan``: changes to operators, and their outcome; ``migration``: changes for another Flink, or another query
- ``rows``: rows of users; ``tasks``: the tasks that write files from them
"""
