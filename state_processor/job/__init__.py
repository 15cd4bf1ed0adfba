"""The state of a job as a description, and what becomes of a snapshot in another job."""
