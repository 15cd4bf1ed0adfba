"""Tests of layouts, for the core and for plug-ins: content to bytes and back, and bytes that are damaged."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from state_processor import connectors
from state_processor.backends.connectors.registry import layouts
from state_processor.connectors import SinkConnector, SourceConnector
from state_processor.errors import CorruptSnapshotError, StateProcessorError, UnsupportedFormatError
from tests.backends.connectors.content_strategies import Strategy, strategy


def names_of(connectors: Sequence[SourceConnector | SinkConnector]) -> frozenset[str]:
    """Return the Java classes of the serializers of connectors."""
    return frozenset(name for connector in connectors for name in connector.layouts)


class LayoutTests:
    """Tests of the layouts of connectors. A class of tests extends it."""

    names: ClassVar[Collection[str]]
    """The Java classes of the serializers."""
    contents: ClassVar[Mapping[tuple[str, int], Strategy]] = {}
    """Strategies of whole values, by class and version. Other strategies are those of codecs."""

    @classmethod
    def pytest_generate_tests(cls, metafunc: pytest.Metafunc) -> None:
        """Make a test of each class and version."""
        by_class = layouts().by_class
        cases = [(name, version) for name in sorted(cls.names) for version in by_class[name]]
        metafunc.parametrize(("name", "version"), cases, ids=lambda part: str(part).rpartition(".")[2])

    @staticmethod
    def ends_early(name: str, version: int, data: bytes) -> bool:
        """Whether the bytes come from an old release without the last field."""
        return False

    @settings(max_examples=4, deadline=None, suppress_health_check=[*HealthCheck])
    @given(data=st.data())
    def test_content_is_read_back(self, name: str, version: int, data: st.DataObject) -> None:
        own = self.contents.get((name, version))
        content = data.draw(strategy(layouts().by_class[name][version]) if own is None else own)
        written = connectors.encode(name, version, content)
        assert connectors.decode(name, version, written) == content
        assert connectors.encode(name, version, json.loads(json.dumps(content))) == written
        self._check_damaged(name, version, written, data)

    def _check_damaged(self, name: str, version: int, written: bytes, data: st.DataObject) -> None:
        """Check that damaged bytes are refused, and that the message names the serializer, its version and the place."""
        blamed = rf"{re.escape(name)} version {version}.*offset \d"
        cuts = [written[:cut] for cut in (len(written) - 1, data.draw(st.integers(0, len(written) - 1)))]
        longer = written + b"\0\0"  # one byte can be a last field that old releases did not write
        for damaged in (longer, *(cut for cut in cuts if not self.ends_early(name, version, cut))):
            with pytest.raises((CorruptSnapshotError, UnsupportedFormatError), match=blamed):
                connectors.decode(name, version, damaged)
        place, byte = data.draw(st.integers(0, len(written) - 1)), data.draw(st.integers(0, 255))
        problems = _problems(name, version, written[:place] + bytes([byte]) + written[place + 1 :])
        assert all(f"{name} version {version}" in problem for problem in problems)


def _problems(name: str, version: int, data: bytes) -> list[str]:
    try:
        connectors.decode(name, version, data)
    except StateProcessorError as error:
        return [str(error)]
    return []
