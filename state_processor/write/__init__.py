"""Writing of savepoints without Spark.

- ``build``: the savepoint as a whole; ``state_writer``, ``savepoint_methods``: the methods of a writer
- ``query_writing``: the interface to what writes state of queries
- ``plan``: changes to operators, and their outcome; ``migration``: changes for another Flink
- ``rows``: rows of users; ``tasks``: the tasks that write files from them
"""
