"""What the state of Flink SQL's operators means, as the compiled plan of the query says."""
