"""A server for the keys and states of a snapshot, or of the newest checkpoint of a job: HTTP and Arrow Flight."""
