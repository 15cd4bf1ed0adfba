from __future__ import annotations

import pytest

from state_processor.serializers.core.collections import ListSerializer
from state_processor.serializers.kryo.classes import log_undescribed, undescribed_classes
from state_processor.serializers.kryo.serializer import KryoSerializer
from state_processor.serializers.kryo.user_classes import register_kryo_class

UNKNOWN = "com.acme.undescribed.Unknown"


def test_classes_are_found_inside_of_other_types(own_registrations: None) -> None:
    register_kryo_class("com.acme.undescribed.Known", {"a": "long"})
    inside = ListSerializer(KryoSerializer(UNKNOWN))
    known = KryoSerializer("com.acme.undescribed.Known"), KryoSerializer("java.util.UUID")
    assert undescribed_classes(inside, known, KryoSerializer(UNKNOWN)) == (UNKNOWN,)


def test_a_class_is_logged_once_with_the_call_that_describes_it(caplog: pytest.LogCaptureFixture) -> None:
    log_undescribed([UNKNOWN, f"{UNKNOWN}2", UNKNOWN])
    log_undescribed([UNKNOWN])
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("state_processor", "WARNING")
    expected = f"register_kryo_class('{UNKNOWN}', {{'field': 'java.lang.String', …}}); register_kryo_class('{UNKNOWN}2', "
    assert expected in record.getMessage()


def test_another_class_is_logged_after_the_first(caplog: pytest.LogCaptureFixture) -> None:
    for name in ("First", "Second", "First"):
        log_undescribed([f"com.acme.after.{name}"])
    assert [record.getMessage().split("names of fields")[0] for record in caplog.records] == [
        "Kryo wrote values of com.acme.after.First without ",
        "Kryo wrote values of com.acme.after.Second without ",
    ]
