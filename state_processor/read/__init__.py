"""From options to a reader, and the projection to the columns that were asked for."""
