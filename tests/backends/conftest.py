"""Hypothesis without deadlines: the first call of a kernel loads or compiles it."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("no-deadline", deadline=None)
settings.load_profile("no-deadline")
