"""The tasks that write the files of a savepoint.

- ``operator_job``: the files to write of an operator; ``targets``: its states, as tasks get them; ``key_hashing``: their keys
- ``passes``: the two passes, and the interface of engines; ``blob_index``: the files between them
- ``keyed_tasks``, ``operator_state_tasks``, ``migration_tasks``: the content of the tasks
- ``local_engine``: the engine that runs the tasks in this process
"""
