"""Apache Flink savepoints and checkpoints as Spark DataFrames, from Python."""
