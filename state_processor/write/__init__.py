"""Writing of savepoints without Spark: changes to operators, their outcome, and the tasks that an engine runs.

- ``build``: the savepoint as a whole, with a ``draft`` for each operator
- ``keyed_changes``, ``operator_state_changes``, ``sink_changes``: methods of a writer change drafts; ``changes`` is the result
- ``migration_decisions``, ``query_migration``: migration to Flink 2.x, and to another query
- ``outcome``: the states that stay, change and go
- ``operator_job``, ``keyed_state_job``, ``operator_state_job``: the passes that write an operator
- ``first_pass``, ``second_pass``, ``keyed_tasks``, ``operator_state_tasks``, ``migration_tasks``: tasks
- ``engines``: the interface of engines; ``local_engine``: the engine that runs the tasks in this process
"""
