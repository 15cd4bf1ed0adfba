"""Rows of a state as files: formats of files, commands that count and export rows, and commands that write rows into states."""
