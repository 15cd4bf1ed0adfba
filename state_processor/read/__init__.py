"""Readers for the options of a read, and the projection to the columns to deliver."""
