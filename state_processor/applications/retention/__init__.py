"""The files of all snapshots below a directory: which snapshots use them, and which can be removed."""
