"""Files wherever they are: storage, files that were moved, scratch space, snappy frames."""
