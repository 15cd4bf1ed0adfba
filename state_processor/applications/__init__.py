"""Applications: what stands on the reader and the writer, and does not take part in reading or writing a snapshot.

The core imports none of them; a public name, and a command in ``commands``, loads its application when it is first used.
Reading and writing ask ``flink_sql`` by two interfaces, which load it when a plan or an operator of a query is there.
An application stands on others only in the order that the import contracts of pyproject.toml list.

``changes`` compares two snapshots, and follows the checkpoints of a job. ``demo`` reads and changes the savepoint of the
documentation. ``erasing`` erases texts, keys and rows, with a proof. ``explain`` explains failed restores. ``finding`` searches
in all state of snapshots. ``fleet`` is the table of all jobs below directories. ``flink_sql`` has the states of queries of Flink
SQL, by their compiled plans. ``history`` has the sizes of states over time. ``jobs`` describes the state of jobs, and checks a
snapshot against a job. ``lake`` keeps tables of Delta, Iceberg and Parquet that follow the checkpoints of a job. ``mcp`` has
tools for assistants. ``point_in_time`` has rows of the past. ``polars`` has lazy frames of Polars. ``report`` is the page about a
snapshot. ``retention`` removes snapshots and files that nobody needs. ``serving`` is the server of HTTP and Arrow Flight. ``sql``
is a snapshot as views. ``structured_streaming`` has the state of queries of Spark. ``testing`` has the contents of savepoints as
Python values, for tests of jobs.
"""
