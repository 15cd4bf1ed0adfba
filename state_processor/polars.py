"""States as lazy frames of Polars: see :mod:`state_processor.applications.polars`."""

from state_processor.applications.polars import *  # noqa: F403
from state_processor.applications.polars import __all__ as __all__
