"""Descriptions of the state of a job, and the check of a snapshot against another job."""
