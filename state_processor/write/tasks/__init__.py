"""The tasks that write the files of a savepoint.

- ``operator_job``: the files to write of an operator; ``key_hashing``: their keys
- ``passes``: the two passes, the files between them, and the interface of engines
- ``state_tasks``, ``migration``: the content of the tasks, and the targets that they get
- ``local_engine``: the engine that runs the tasks in this process
"""
