"""Damaged input for everything that reads bytes: ``./dev fuzz``.

A run takes well-formed input that Flink wrote (a *seed*), edits it, and reads it in a child process. It is organised as

* ``edits``: changes of numbers, lengths, type tags, offsets and text, found by watching the reader of the seed (``fields``);
  flipped bits, copied runs and truncation if the structure is unknown;
* ``targets``: the classes of input, and their readers;
* ``guard``: pages behind the buffers of the decode kernel that can't be touched, and canaries between its columns;
* ``campaign``: children with limits of time and memory, counts, crash files and their minimisation.

Allowed results of reading damaged input
---------------------------------------
* a :class:`StateProcessorError`;
* a result. The formats have no checksums (but for RocksDB's blocks and snappy's chunks), so an edit may change a value, a name or
  a time unseen. It never changes the number of rows unseen: a state has as many rows as its file counts entries, which the
  targets count again by themselves (``wrong rows``). An edit of a count, or of the assignment of entries to states, changes the
  count itself. All batches pass ``validate(full=True)``.

Everything else is a failure: another exception (``foreign``), the end of the process (``crash``), 20 s of CPU time (``hang``), 2
GB of memory (``memory``), a batch that does not pass (``invalid Arrow``). Failures are kept as small JSON files that name the
seed and the edits; ``test_fuzz.py`` replays the files in ``regressions``.
"""
