"""Writing of savepoints without Spark: changes to operators, their outcome, and the tasks that an engine runs.

- ``build``: the savepoint as a whole, with a ``draft`` for each operator
- ``keyed_changes``, ``operator_state_changes``: methods of a writer change drafts; ``changes`` is the result
- ``migration_decisions``, ``query_migration``: migration to Flink 2.x, and to another query
- ``row_protocol``: operations of both engines; ``row_operations``, ``query_rows``: rows for the states of queries
- ``outcome``: the states that stay, change and go
- ``operator_job``: the files to write of an operator
- ``passes``: the two passes; ``keyed_tasks``, ``operator_state_tasks``, ``migration_tasks``: the content of their tasks
- ``engines``: the interface of engines; ``local_engine``: the engine that runs the tasks in this process
"""
