from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from xml.etree import ElementTree

import numpy as np
import pytest

from state_processor.applications.report import charts
from state_processor.applications.report.contents import Distribution
from state_processor.display.histograms import TimeHistogram

SVG = "{http://www.w3.org/2000/svg}"


def rectangles(html: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(html).iter(f"{SVG}rect"))


def cells(sizes: Sequence[int]) -> list[ElementTree.Element]:
    return rectangles(f"<div>{charts.heat_map(Distribution(np.array(sizes)))}</div>")


def test_bars_are_as_high_as_their_values_and_titles_are_escaped() -> None:
    found = rectangles(charts.bars([1, 0, 4], ["a", "b", "<c>"], "left", "right"))
    assert [float(r.attrib["height"]) for r in found] == [25.0, 0.0, 100.0]
    assert [r[0].text for r in found] == ["a", "b", "<c>"]


def test_bars_have_an_axis_of_values() -> None:
    chart = ElementTree.fromstring(charts.bars([1, 12_345], ["a", "b"], "left", "right"))
    ticks, drawing, axis = chart
    assert [span.text for span in ticks] == ["15,000", "10,000", "5,000", "0"]
    assert [path.attrib["d"] for path in drawing.iter(f"{SVG}path")] == ["M0 66.67H2", "M0 33.33H2", "M0 0.00H2"]
    assert float(rectangles(ElementTree.tostring(drawing, "unicode"))[1].attrib["height"]) == 82.3
    assert [span.text for span in axis] == ["left", "right"]
    sizes = ElementTree.fromstring(charts.subtasks(Distribution(np.array([2 << 20, 3 << 20]))))
    assert [span.text for span in sizes[0]] == ["3.0 MiB", "2.0 MiB", "1.0 MiB", "0 B"]
    assert [span.text for span in sizes[2]] == ["subtask 0", "1"]


def test_many_subtasks_share_bars() -> None:
    found = rectangles(charts.subtasks(Distribution(np.arange(1024))))
    assert (len(found), found[1][0].text) == (128, "subtasks 8 to 15: at most 15 B")


def test_cells_of_key_groups_are_as_dark_as_they_are_large() -> None:
    found = cells([0, 50, 100])
    assert [float(r.attrib["fill-opacity"]) for r in found] == [0.06, 0.53, 1.0]
    assert found[2][0].text == "key group 2: 100 B"
    many = cells(range(1024))
    assert (len(many), many[1][0].text) == (128, "key groups 8 to 15: 92 B")
    assert [float(r.attrib["fill-opacity"]) for r in cells([0, 0])] == [0.06, 0.06]
    assert charts.heat_map(Distribution(np.arange(3000))).endswith("<span>key group 0</span><span>2,999</span></div>")


def test_axes_of_times_and_ages() -> None:
    histogram = TimeHistogram(1000, Counter({0: 1, 59: 1}))
    assert "<span>1970-01-01 00:00:00</span><span>1970-01-01 00:01:00</span>" in charts.times(histogram)
    assert "<span>2 minutes old</span><span>1 minute old</span>" in charts.ages(histogram, 120_000)
    assert charts.times(TimeHistogram()) == charts.ages(TimeHistogram(), 0) == ""


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (-5, "0 seconds"),
        (999, "0 seconds"),
        (1000, "1 second"),
        (90_000, "1.5 minutes"),
        (86_400_000 * 31, "31 days"),
        (86_400_000 * 1234, "1,234 days"),
    ],
)
def test_durations(milliseconds: int, text: str) -> None:
    assert charts.duration_text(milliseconds) == text


def test_points_in_time_end_with_the_calendar() -> None:
    assert [charts.instant_text(ms) for ms in (0, 2**60)] == ["1970-01-01 00:00:00", "9999-12-31 23:59:59"]
