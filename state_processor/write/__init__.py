"""Writes of savepoints, without Spark.

- ``plan``: a savepoint to write, from its drafts to its commit
- ``draft``, ``source_operator``, ``rows``: operators, their state in the source savepoint, rows for them
- ``keyed_changes``, ``operator_state_changes``: the changes that methods of the writer make; ``row_columns``, ``column_checks``
- ``operator_job``, ``keyed_state_job``, ``operator_state_job``, ``key_hashing``, ``job_context``: what runs on the driver
- ``engines``: the interface of what runs tasks
- ``keyed_tasks``, ``operator_state_tasks``, ``shuffle``, ``shuffle_index``, ``subtask_files``, ``task_data``: what runs in tasks
- ``migration_plan``, ``operator_migration``, ``migration_tasks``: migration to Flink 2.x
"""
