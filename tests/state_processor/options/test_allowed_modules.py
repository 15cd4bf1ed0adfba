from __future__ import annotations

import pytest

from state_processor.errors import OptionError
from state_processor.options.data_sources import SinkOptions, SourceOptions
from state_processor.options.user_serializers import allowed_modules, check_allowed


@pytest.mark.parametrize(
    ("allowed", "module"),
    [("acme", "acme"), ("acme.one", "acme.one"), ("acme.*", "acme"), ("acme.*", "acme.one.two"), ("x, acme.one", "acme.one")],
)
def test_allowed(allowed: str, module: str) -> None:
    check_allowed([module], allowed_modules(allowed))


@pytest.mark.parametrize(
    ("allowed", "module"),
    [("", "acme"), ("acme", "acme.one"), ("acme.one", "acme"), ("acme.*", "acmeevil"), ("acme.*", "acm"), ("acme.one.*", "acme")],
)
def test_not_allowed(allowed: str, module: str) -> None:
    with pytest.raises(OptionError) as refused:
        check_allowed([module], allowed_modules(allowed))
    message = str(refused.value)
    assert message.startswith(f"option serializers: module {module!r} is not allowed")
    assert f"spark.stateProcessor.serializers.allowed={module}" in message
    assert f"register(spark, allow_serializers=[{module!r}])" in message


@pytest.mark.parametrize("name", ["*", ".*", "acme.", "acme*", "acme.*.one", ".acme", "a b"])
def test_what_is_no_name(name: str) -> None:
    with pytest.raises(OptionError, match=r"allowed serializers: .* is not the name of a module"):
        allowed_modules(["fine", name])


def test_options_of_every_format_are_checked() -> None:
    given = {"path": "/p", "serializers": "acme.one"}
    for source in ("flink-savepoint", "flink-savepoint-metadata"):
        with pytest.raises(OptionError, match=r"module 'acme\.one' is not allowed"):
            SourceOptions.parse(given, source)
        assert SourceOptions.parse(given, source, ["acme.*"]).access.serializers == ("acme.one",)
    with pytest.raises(OptionError, match=r"module 'acme\.one' is not allowed"):
        SinkOptions.parse(given | {"uid": "orders"})
    assert SinkOptions.parse(given | {"uid": "orders"}, ["acme.one"]).access.serializers == ("acme.one",)
