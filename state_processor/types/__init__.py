"""What users pass: types, states to write, operators and durations, and how they are written as text."""
