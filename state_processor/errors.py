"""The errors that this library raises; all extend :class:`StateProcessorError`."""

from state_processor.support.errors import *  # noqa: F403
from state_processor.support.errors import __all__ as __all__
