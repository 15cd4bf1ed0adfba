"""Faults of machines and storage during a write: visible files, leftovers, and success of a second write.

``./dev faults --kills N`` kills writes at random moments. It shares with the tests in this directory kinds of writes (``writes``:
in this process, without Spark; ``driver``: with Spark), of storage (``storage``), and the conditions after a fault (``truth``).
``./dev removals`` removes files beside running jobs (``removals``).
"""
