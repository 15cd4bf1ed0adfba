"""Commands of the command line that read, write and describe snapshots, and what all commands share."""
