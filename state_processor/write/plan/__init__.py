"""The plan of a savepoint: what each of its operators has, before a file is written.

- ``source_operator``: an operator of the source savepoint; ``draft``: the operator in the new savepoint
- ``keyed_changes``: methods of a writer change drafts; ``changes`` is the result
- ``outcome``: the states that stay, change and go; ``format_choice``: the format of their files
- ``restorability``, ``migration_report``, ``write_summary``: reports for users
"""
