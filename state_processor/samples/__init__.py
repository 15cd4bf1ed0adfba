"""The savepoint of a small shop that the documentation uses; Flink 2.3 wrote it.

The key of operator ``orders`` is the name of a customer, with a running total, a profile (a POJO), a history (a list), items (a
map), a session (with TTL) and a timer. Operator ``catalog`` has operator state. ``./dev fixtures`` writes the same files.
"""

from __future__ import annotations

import os
from typing import Final

SHOP: Final = os.path.join(os.path.dirname(__file__), "shop")


def sample_savepoint() -> str:
    """Return the path of the savepoint of a small shop, for first steps. It is installed with the package.

    The savepoint is only read. ``state-processor sample DIR`` copies it into a new directory.

    Examples
    --------
    >>> import state_processor as sp
    >>> sp.open(sp.sample_savepoint()).read_keyed_state("orders", "total").read_all().num_rows
    50
    """
    return SHOP
