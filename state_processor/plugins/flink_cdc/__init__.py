"""Flink CDC: sources of MySQL, Postgres, Oracle, SQL Server, Db2 and MongoDB."""
