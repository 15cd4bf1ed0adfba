"""What options act on, and the refusal of all others at every door."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest

import state_processor as sp
from state_processor import cli
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.backends.read.read_options import ROWS, Kind
from state_processor.options.access import SNAPSHOT_OPTIONS, SnapshotAccess
from state_processor.options.data_sources import READ_OPTIONS, READING_OPTIONS, format_options
from state_processor.options.groups import (
    CountOptions,
    DiffOptions,
    DirectoryOptions,
    EntryOptions,
    KeyedStateOptions,
    LookupOptions,
    OpeningOptions,
    OperatorStateOptions,
    SnapshotOptions,
    TimerOptions,
)
from state_processor.options.keywords import EFFECTIVE_OPTIONS, KEYWORD_OPTIONS, PUSHDOWN, check_arguments
from state_processor.options.option import Option
from state_processor.reader import SavepointReader
from state_processor.spark.datasource import FlinkSavepointDataSource
from state_processor.support.doors import Door, entered, read_with, registering, spelled, text_name
from tests.state_processor.options.option_samples import SAMPLES
from tests.state_processor.samples import ORDERS_PATH, WINDOWS_PATH

VALUES: Final = {name: sample.value for name, sample in SAMPLES.items() if sample.value is not None}

READ: Final[dict[Kind, dict[str, Any]]] = {
    Kind.KEYED: {"uid": "orders", "state": "total"},
    Kind.WHOLE: {"uid": "orders"},
    Kind.TIMERS: {"uid": "orders", "kind": "TIMER"},
    Kind.LIST: {"uid": "catalog", "state": "pending"},
    Kind.BROADCAST: {"uid": "catalog", "state": "discounts"},
    Kind.UNION: {"uid": "catalog", "state": "offsets"},
    Kind.RAW: {"uid": "orders", "kind": "RAW_KEYED"},
}
"""What is read of each kind, as options of the data source."""

BY_STATE: Final = [o for o in EFFECTIVE_OPTIONS if o not in SNAPSHOT_OPTIONS]
REFUSED: Final = [(o, kind) for o in EFFECTIVE_OPTIONS for kind in READ if kind not in o.applies_to]
CELLS: Final = pytest.mark.parametrize(("option", "kind"), REFUSED, ids=lambda v: getattr(v, "argument", getattr(v, "name", "")))


@pytest.mark.parametrize("kind", [kind for kind in READ if kind in KEYWORD_OPTIONS["flatten"].holds_on])
def test_rows_that_have_no_list_per_key_are_the_same_with_and_without_flatten(kind: Kind) -> None:
    """One call may read states of all kinds."""
    options = {key: value for key, value in READ[kind].items() if key in ("kind", "state")}
    flat, whole = (list(sp.arrow.read_state(ORDERS_PATH, READ[kind]["uid"], **options, flatten=value)) for value in (True, False))
    assert flat == whole
    assert flat


def given(option: Option) -> dict[str, Any]:
    """The option with all options that it needs."""
    sample = SAMPLES[option.argument]
    return {option.argument: sample.value, **sample.needs}


def test_every_option_has_a_value_to_try_and_acts_on_something() -> None:
    assert VALUES.keys() == {o.argument for o in EFFECTIVE_OPTIONS}, "tests/state_processor/options/option_samples.py"
    assert all(o.on for o in EFFECTIVE_OPTIONS)
    known = {o.argument for o in EFFECTIVE_OPTIONS}
    assert all(known.issuperset(o.needs) for o in EFFECTIVE_OPTIONS)


@pytest.mark.parametrize(
    ("kind", "group"),
    [
        (Kind.KEYED, KeyedStateOptions),
        (Kind.WINDOW, KeyedStateOptions),
        (Kind.TIMERS, TimerOptions),
        (Kind.BROADCAST, OperatorStateOptions),
        (Kind.LOOKUP, LookupOptions),
        (Kind.DIFF, DiffOptions),
        (Kind.COUNTS, CountOptions),
    ],
)
def test_signatures_have_the_options_that_act(kind: Kind, group: Any) -> None:
    assert set(group.__annotations__) == {o.argument for o in BY_STATE if kind in o.on} - {"pushdown"}


@pytest.mark.parametrize(
    ("kind", "group"),
    [
        *((kind, SnapshotOptions) for kind in Kind if kind in ROWS - {Kind.RAW} or kind in (Kind.LOOKUP, Kind.DIFF, Kind.SIZES)),
        *((kind, EntryOptions) for kind in (Kind.RAW, Kind.COUNTS)),
        *((kind, OpeningOptions) for kind in (Kind.CHANNELS, Kind.SPLITS, Kind.SINK, Kind.TABLES)),
        (Kind.SNAPSHOTS, DirectoryOptions),
    ],
)
def test_signatures_have_the_options_of_opening_that_apply(kind: Kind, group: Any) -> None:
    assert set(group.__annotations__) == {o.argument for o in SNAPSHOT_OPTIONS if kind in o.applies_to}


@CELLS
def test_functions_refuse(option: Option, kind: Kind) -> None:
    if option is PUSHDOWN:
        return
    with pytest.raises(sp.OptionError, match=r"\w+ does not apply to .*: it is for .*eave \w+ out"):
        sp.arrow.read_state(ORDERS_PATH, **READ[kind], **given(option))


@CELLS
def test_data_sources_refuse(option: Option, kind: Kind) -> None:
    if option.code_only:
        return
    text = (
        {"pushdown": "serves-one-query"}
        if option is PUSHDOWN
        else format_options(READING_OPTIONS, check_arguments(given(option)))
    )
    source = FlinkSavepointDataSource({"path": ORDERS_PATH, **READ[kind], **text})
    with pytest.raises(sp.OptionError, match=r"does not apply to") as refusal:
        source.schema()
    assert not {n for n in str(refusal.value).replace(".", " ").split() if n in VALUES and n != text_name(n)}


def test_what_options_need() -> None:
    cases: list[tuple[Mapping[str, Any], str]] = [
        ({"as_of": 0}, "as_of needs ttl: give it too, or leave as_of out"),
        ({"expired": "include"}, "expired needs ttl: give it too"),
        ({"ttl": "PT1H"}, "ttl needs as_of"),
        ({"unpickle": True}, "python_type"),
    ]
    for options, message in cases:
        with pytest.raises(sp.OptionError, match=message):
            sp.arrow.read_state(ORDERS_PATH, "orders", "session", **options)
        with pytest.raises(sp.OptionError, match=message):
            sp.arrow.lookup(ORDERS_PATH, "orders", "amelia", "session", **options)


@pytest.mark.parametrize("kind", ["OPERATOR_LIST", "UNION_LIST", "BROADCAST"])
def test_operator_state_is_read_by_its_name(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(sp.OptionError, match=f"kind='{kind}' needs state: name the state, or leave kind out"):
        sp.arrow.read_state(ORDERS_PATH, "orders", kind=kind)
    assert cli.main(["show", ORDERS_PATH, "--uid", "orders", "--kind", kind]) == cli.BAD_INPUT
    assert f"--kind {kind} needs --state" in capsys.readouterr().err


@pytest.mark.parametrize("state", ["pending", "offsets", "discounts"])
def test_operator_state_has_no_key_to_name_fields_of(state: str) -> None:
    with pytest.raises(sp.OptionError, match=f"'key' is not read; names may be given for '{state}'"):
        sp.arrow.read_state(ORDERS_PATH, "catalog", state, fields={"key": ["a"]})


def test_the_command_line_reads_kinds(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["count", ORDERS_PATH, "--uid", "orders", "--kind", "TIMER"]) == 0
    counted = int(capsys.readouterr().out)
    assert counted == sum(batch.num_rows for batch in sp.arrow.read_timers(ORDERS_PATH, "orders")) > 0
    assert cli.main(["show", ORDERS_PATH, "--uid", "orders", "--timers", "--kind", "KEYED"]) == cli.BAD_INPUT
    assert "--timers --kind KEYED: use one of them" in capsys.readouterr().err
    key = ["show", ORDERS_PATH, "--uid", "orders", "--state", "total", "--key", "amelia", "--time-zone", "Asia/Kolkata"]
    assert cli.main(key) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("list", "--no-check", "--map", "/a=/b"), "--map acts only without --no-check: leave that out, or leave --map out"),
        (("latest", "--no-check", "--allow", "/a"), "--allow acts only without --no-check: leave that out"),
        (("sizes", "--time-zone", "UTC"), "--time-zone acts only with --by key: add that"),
        (("count", "--uid", "orders", "--time-zone", "UTC"), "--time-zone acts only with --where: add that"),
        (("report", "-o", "-", "--quick", "--time-zone", "UTC"), "--time-zone acts only where the report shows keys"),
    ],
)
def test_flags_that_need_another(arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    command, *others = arguments
    assert cli.main([command, ORDERS_PATH, *others]) == cli.BAD_INPUT
    assert message in capsys.readouterr().err


def test_arguments_that_need_another() -> None:
    with pytest.raises(sp.OptionError, match="path_mapping acts only with check=True: set that"):
        sp.list_snapshots(ORDERS_PATH, check=False, path_mapping={"/a": "/b"})
    with pytest.raises(sp.OptionError, match="time_zone acts only with by='key': add that"):
        sp.arrow.size_report(ORDERS_PATH, time_zone="UTC")


def test_state_without_time_to_live() -> None:
    message = "ttl does not apply to state 'total' of operator 'orders', declared without time-to-live"
    with pytest.raises(sp.OptionError, match=message):
        sp.arrow.read_state(ORDERS_PATH, "orders", "total", ttl="PT1H", as_of=0)
    with pytest.raises(sp.OptionError, match=message):
        sp.arrow.lookup(ORDERS_PATH, "orders", "amelia", "total", ttl="PT1H", as_of=0)
    (whole,) = {sum(b.num_rows for b in sp.arrow.read_state(ORDERS_PATH, "orders", ttl="PT1H", as_of=0))}
    assert whole


def test_window_state_has_windows() -> None:
    reader = SavepointReader(None, open_snapshot(ORDERS_PATH), SnapshotAccess())  # type: ignore[arg-type]
    with pytest.raises(sp.NotFoundError, match="'total' of operator 'orders' is not in windows; read it with read_keyed_state"):
        reader.read_window_state("orders", "total")


def test_look_ups_and_get_have_the_same_options() -> None:
    flags = vars(cli.command_parser("get").parse_args(["get", WINDOWS_PATH, "--uid", "windows", "key"])).keys()
    of_lookups = {o.argument for o in READ_OPTIONS if Kind.LOOKUP in o.on}
    assert flags & {o.argument for o in READ_OPTIONS} == of_lookups - {"unpickle"}  # code alone loads pickles
    assert of_lookups == set(LookupOptions.__annotations__)


def test_flags_of_get(capsys: pytest.CaptureFixture[str]) -> None:
    look = ("get", ORDERS_PATH, "--uid", "orders", "amelia", "--state", "session", "--json")
    assert cli.main([*look, "--metadata"]) == 0
    assert '"_last_access"' in capsys.readouterr().out
    assert cli.main([*look, "--ttl", "PT1H", "--as-of", "2999-01-01"]) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("count", "--uid", "catalog", "--state", "pending", "--ttl", "PT1H", "--as-of", "0"), "--ttl does not apply to state"),
        (("count", "--uid", "orders", "--state", "session", "--as-of", "0"), "--as-of needs --ttl: give it too"),
        (("get", "amelia", "--uid", "orders", "--expired", "only"), "--expired needs --ttl"),
        (("show", "--uid", "orders", "--nanos", "round"), "--nanos round: expected one of 'error'"),
        (("count", "--uid", "orders", "--ttl", "PT1H"), "--ttl needs --as-of"),
        (("show", "--uid", "orders", "--timers", "--ttl", "PT1H", "--as-of", "0"), "--ttl does not apply to operator 'orders'"),
        (("count", "--uid", "orders", "--ttl", "PT1H", "--as-of", "yesterday"), "--as-of 'yesterday': expected now, "),
    ],
)
def test_the_command_line_spells_flags(arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    command, *others = arguments
    assert cli.main([command, ORDERS_PATH, *others]) == cli.BAD_INPUT
    found = capsys.readouterr().err
    assert message in found
    assert not {word.strip(",.:;") for word in found.split()} & {n for n in VALUES if "_" in n}


def test_names_at_each_door() -> None:
    for door, names in {
        Door.METHODS: ("as_of", "nanos='string'", "flatten=False", "path_mapping={'a': 'b'}", "read_list_state"),
        Door.FUNCTIONS: ("as_of", "nanos='string'", "flatten=False", "path_mapping={'a': 'b'}", "kind='OPERATOR_LIST'"),
        Door.DATA_SOURCE: ("asOf", "nanos=string", "flatten=false", 'pathMapping={"a": "b"}', "kind=OPERATOR_LIST"),
        Door.COMMAND_LINE: ("--as-of", "--nanos string", "--no-flatten", "--map a=b", "--kind OPERATOR_LIST"),
    }.items():
        with entered(door):
            options = (("as_of",), ("nanos", "string"), ("flatten", False), ("path_mapping", {"a": "b"}))
            assert (*(spelled(*option) for option in options), read_with("OPERATOR_LIST")) == names
            is_code = door in (Door.METHODS, Door.FUNCTIONS)
            assert (registering("register_snapshot()") == "register_snapshot()") is is_code
    assert spelled("as_of") == "as_of"
