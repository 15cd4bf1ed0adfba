"""Names and descriptions of the state of Flink SQL's operators, from the compiled plan of the query."""
