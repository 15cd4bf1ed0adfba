from __future__ import annotations

import json
from typing import Any, Final

import pytest

from state_processor.errors import OptionError
from state_processor.options.data_sources import parse_options
from state_processor.options.keywords import KEYWORD_OPTIONS, READING, TEXT_OPTIONS, check_arguments
from tests.state_processor.options.option_samples import SAMPLES

SAME: Final = [(name, value, text) for name, sample in SAMPLES.items() for value, text in sample.alike]
REFUSED: Final = [(name, value, text) for name, sample in SAMPLES.items() for value, text in sample.refused]


def of_text(argument: str, text: str) -> Any:
    option = KEYWORD_OPTIONS[argument]
    given = {option.name: text}
    if option.prefix:  # each entry is an option
        entries = option.kind.of_text(option.name, text)
        given = {f"{option.prefix}{n}": value if isinstance(value, str) else json.dumps(value) for n, value in entries.items()}
    return parse_options(READING, TEXT_OPTIONS[READING], given, allowed=["one", "two"])[argument]


@pytest.mark.parametrize(("argument", "value", "text"), SAME)
def test_arguments_and_text_mean_the_same(argument: str, value: Any, text: str) -> None:
    checked = check_arguments({argument: value})[argument]
    assert checked == of_text(argument, text)
    assert of_text(argument, KEYWORD_OPTIONS[argument].kind.encode(checked)) == checked


@pytest.mark.parametrize(("argument", "value", "text"), REFUSED)
def test_arguments_and_text_are_refused_alike(argument: str, value: Any, text: str) -> None:
    messages = []
    for refused, given in ((check_arguments, {argument: value}), (lambda g: of_text(argument, text), {})):
        with pytest.raises(OptionError) as caught:
            refused(given)
        messages.append(str(caught.value))
    of_value, of_option = messages
    assert of_value.startswith((f"{argument}=", f"{argument}: expected", f"{argument} ", f"{argument}:"))
    assert of_value.split("expected ")[-1].split(" (")[0] == of_option.split("expected ")[-1].split(" (")[0]


def test_every_option_is_tried() -> None:
    spark_only = {"uid", "uid_hash", "state", "split_size", "pushdown"}
    assert {argument for argument, _, _ in SAME} == {o.argument for o in TEXT_OPTIONS[READING]} - spark_only
    assert {argument for argument, _, _ in REFUSED} == {argument for argument, _, _ in SAME}


def test_none_is_the_default() -> None:
    assert check_arguments(dict.fromkeys(KEYWORD_OPTIONS)) == {}
