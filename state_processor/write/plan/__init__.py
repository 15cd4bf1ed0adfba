"""The plan of a savepoint: what each of its operators has, before a file is written.

- ``source_operator``: an operator of the source savepoint; ``draft``: the operator in the new savepoint
- ``keyed_changes``: methods of a writer change drafts; ``outcome``: the states that stay, change and go
- ``restorability``, ``reports``: reports for users
"""
