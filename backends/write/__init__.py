"""Files of a new savepoint: rows encoded, entries passed through, operators assembled."""
