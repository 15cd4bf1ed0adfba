"""``_metadata``, state handles, the directory of a snapshot, operator ids."""
