"""Tests of the state of Flink jobs: see :mod:`state_processor.applications.testing`. ``plugin`` is the plugin of pytest."""

from state_processor.applications.testing import *  # noqa: F403
from state_processor.applications.testing import __all__ as __all__
