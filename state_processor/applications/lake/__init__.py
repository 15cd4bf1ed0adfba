"""State as a table that follows the checkpoints of a job: Delta, Iceberg or Parquet."""
