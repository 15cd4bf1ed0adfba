"""Hypothesis without limits of time: the first call of a kernel loads or compiles it, and machines are busy."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("no-deadline", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("no-deadline")
