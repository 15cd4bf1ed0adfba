"""The verdict on restoring state with another serializer (Flink: ``TypeSerializerSchemaCompatibility``)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Verdict(IntEnum):
    """Flink's four results, from harmless to fatal. The greatest of several is the worst."""

    COMPATIBLE_AS_IS = 0
    COMPATIBLE_WITH_RECONFIGURED_SERIALIZER = 1
    COMPATIBLE_AFTER_MIGRATION = 2
    INCOMPATIBLE = 3


@dataclass(frozen=True, slots=True)
class SchemaCompatibility:
    """A verdict and, if it is incompatible, the reason."""

    verdict: Verdict
    reason: str = ""

    def _repr_html_(self) -> str:
        from html import escape

        mark = "✗" if self.is_incompatible else "✓"
        reason = f"<br>{escape(self.reason)}" if self.reason else ""
        return f"<p>{mark} <b>{self.verdict.name.replace('_', ' ').lower()}</b>{reason}</p>"

    @classmethod
    def compatible_as_is(cls) -> SchemaCompatibility:
        """Return the verdict that the new serializer can read bytes of the old one."""
        return cls(Verdict.COMPATIBLE_AS_IS)

    @classmethod
    def compatible_with_reconfigured_serializer(cls) -> SchemaCompatibility:
        """Return the verdict that the new serializer needs details of the old one, such as the order of registrations."""
        return cls(Verdict.COMPATIBLE_WITH_RECONFIGURED_SERIALIZER)

    @classmethod
    def compatible_after_migration(cls) -> SchemaCompatibility:
        """Return the verdict that all state must be read with the old serializer and written with the new one."""
        return cls(Verdict.COMPATIBLE_AFTER_MIGRATION)

    @classmethod
    def incompatible(cls, reason: str) -> SchemaCompatibility:
        """Return the verdict that Flink refuses to restore."""
        return cls(Verdict.INCOMPATIBLE, reason)

    @classmethod
    def worst(cls, *results: SchemaCompatibility) -> SchemaCompatibility:
        """Return the verdict on a whole from the verdicts on its parts."""
        return max(results, key=lambda r: r.verdict, default=cls.compatible_as_is())

    @property
    def is_incompatible(self) -> bool:
        """Whether Flink refuses to restore."""
        return self.verdict is Verdict.INCOMPATIBLE

    def __str__(self) -> str:
        name = self.verdict.name.lower()
        return f"{name}: {self.reason}" if self.reason else name
