"""Random differential tests against real Flink: Flink restores our savepoints, and we read Flink's.

A case is one operator in the form of expected.json, entries and all, made from a seed. Directions:

written
    We write the case; Flink restores it, prints every entry, and takes snapshots of its own, which we read.
native
    The same in files of the state backends, with more states, some of them empty. Flink takes a checkpoint, too.
spark
    The same from DataFrames.
read
    Flink fills a job's states from the case and takes snapshots in all formats, which we read.

What fails is shrunk to its smallest part that still fails, and printed in the form that ``regressions.json`` keeps.
"""
