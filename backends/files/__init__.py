"""Access to files: storage, moved files, scratch space, snappy frames."""
