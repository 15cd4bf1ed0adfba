"""A server of the Model Context Protocol: read-only tools for assistants that look at the snapshots of a job."""
