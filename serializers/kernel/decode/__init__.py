"""The decode kernel: instructions, the builder of programs, the loop that runs them, the columns that it fills."""
