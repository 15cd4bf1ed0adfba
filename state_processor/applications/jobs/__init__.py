"""Descriptions of the state of a job, and the check of a snapshot against another job.

``report_files`` has the files of the report for pipelines.
"""
