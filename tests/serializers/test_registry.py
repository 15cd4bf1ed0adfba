"""Entry points are found wherever the standard library finds them. Built-in plug-ins register as they do, and come last."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module, metadata
from pathlib import Path
from zipfile import ZipFile

import pytest

from state_processor.serializers import register_kryo_class, registry
from state_processor.serializers.kryo.classes import user_class
from state_processor.serializers.registry import entry_points
from state_processor.support.plugin_table import PLUGINS
from tests.plugins import modules_of_plugins

GROUP = "state_processor.of_tests"
_FILES = {"METADATA": "Metadata-Version: 2.1\nName: acme\nVersion: 1\n", "entry_points.txt": f"[{GROUP}]\nacme = acme:load\n"}
_FILES["PKG-INFO"] = _FILES["METADATA"]


def _directory(name: str) -> Callable[[Path], Path]:
    def make(root: Path) -> Path:
        (root / name).mkdir(parents=True)
        for file, text in _FILES.items():
            (root / name / file).write_text(text)
        return root

    return make


def _egg(root: Path) -> Path:
    return _directory("EGG-INFO")(root / "acme-1-py3.11.egg")


def _archive(root: Path) -> Path:
    with ZipFile(root / "acme.zip", "w") as archive:
        for file, text in _FILES.items():
            archive.writestr(f"acme-1.dist-info/{file}", text)
    return root / "acme.zip"


@pytest.mark.parametrize(
    "make",
    [_directory("acme-1.dist-info"), _directory("acme.egg-info"), _directory("ACME-1.DIST-INFO"), _egg, _archive],
    ids=["wheel", "develop", "upper case", "egg", "archive"],
)
def test_as_the_standard_library(make: Callable[[Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [*entry_points(GROUP)] == [*metadata.entry_points(group=GROUP)] == []
    monkeypatch.setattr(sys, "path", [str(make(tmp_path)), *sys.path])
    assert (
        [point.name for point in entry_points(GROUP)] == [point.name for point in metadata.entry_points(group=GROUP)] == ["acme"]
    )


CLASSES: dict[str, list[str]] = {
    name: fields for module in modules_of_plugins("kryo_classes") for name, fields in module.FIELDS.items()
}
"""Classes that plug-ins describe, with their fields."""


@pytest.fixture
def _no_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    for registered in ("installed", "received"):
        monkeypatch.setattr(registry._PROCESS, registered, registry.Registrations())
    registry.plugin_of.cache_clear()


def fields_of(class_name: str) -> list[str]:
    description = user_class(class_name)
    return [] if description is None else [name for name, _ in description.fields]


@pytest.mark.usefixtures("_no_plugins")
def test_plugins_describe_classes_when_they_are_needed() -> None:
    assert CLASSES.keys().isdisjoint(registry.current_registrations().kryo_classes)
    assert {name: fields_of(name) for name in CLASSES} == CLASSES
    assert CLASSES.keys().isdisjoint(registry.user_registrations().kryo_classes)


@pytest.mark.usefixtures("_no_plugins")
@pytest.mark.parametrize("class_name", CLASSES)
def test_an_entry_point_replaces_the_description_of_a_plugin(class_name: str) -> None:
    registry.install(lambda: partial(register_kryo_class, class_name, {"other": "long"}))
    assert fields_of(class_name) == ["other"]


@pytest.mark.parametrize("plugin", [plugin.serializers for plugin in PLUGINS if plugin.classes])
def test_plugins_have_what_the_registry_looks_for(plugin: str) -> None:
    module = import_module(f"state_processor.plugins.{plugin}")
    assert hasattr(module, "SNAPSHOTS") or hasattr(module, "register")
