"""Classes of this plug-in that tests of all plug-ins except, with the reasons."""

from __future__ import annotations

WITHOUT_A_CASE: dict[str, str] = {}
READ_IN_PYTHON: dict[str, str] = {}
WRITTEN_IN_PYTHON = {
    "ConstantSerializer": "has one value, in no bytes",
    "DurationSerializer": "a job rarely has many of them",
}
ITERABLES = {"serializers.register_case_class.fields": "its test has a list"}
