"""A server of the Model Context Protocol: read-only tools with which programs that ask look at the snapshots of a job."""
