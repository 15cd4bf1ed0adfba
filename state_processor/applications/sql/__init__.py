"""A snapshot as views of SQL: names of views, data sets that DuckDB reads, fields that a query uses."""
