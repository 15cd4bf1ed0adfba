"""Faults of machines and storage in the midst of a write: what is visible, what is left, and whether a second write succeeds.

``./dev faults --kills N`` kills writes at random moments. It shares with the tests in this directory kinds of writes (``writes``:
in this process, without Spark; ``driver``: with Spark), of storage (``storage``), and what has to hold after a fault (``truth``).
"""
