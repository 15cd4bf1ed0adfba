"""The process that forks Python workers for sessions of the tests: it has imported what each of them would import otherwise.

That is most of what short tasks take. It stands in for ``pyspark.daemon``; workers of the sessions of other programs (the demo,
installed packages) import everything themselves.
"""

from __future__ import annotations

import gc

import pandas  # noqa: F401  pyarrow imports it when it makes arrays
from pyspark.daemon import manager

import state_processor.arrow
import state_processor.reader
import state_processor.serializers.kernel.dispatchers
import state_processor.spark.sink
import state_processor.writer  # noqa: F401

if __name__ == "__main__":
    gc.collect()
    gc.freeze()  # pages of these objects stay shared with the workers
    manager()
