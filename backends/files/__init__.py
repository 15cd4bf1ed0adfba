"""Access to files: storage, open files, moved files, scratch space, snappy frames."""
