"""Erasure of texts, keys and rows from all state, and its proof."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

import state_processor as sp
from state_processor import cli
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.backends.read.operator_state import OperatorStateReader, raw_elements
from state_processor.backends.read.state_access import open_state
from state_processor.backends.read.stored_operator import StoredOperator, operator_states
from state_processor.types.answers import Answer
from tests.archives import unpacked
from tests.corpus import FIXTURES, packed_cases
from tests.state_processor.samples import savepoint_with_mentions
from tests.unknown_serializers import STRING, with_unknown_class

ALL = ("fields", "elements", "entries", "keys")
NATIVE = str(next((FIXTURES / "2.3.0" / "orders-rocksdb-native").rglob("_metadata")).parent)
FORMATS = pytest.mark.parametrize("backend", [None, "rocksdb", "hashmap"])


@pytest.fixture(scope="module")
def everywhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return savepoint_with_mentions(tmp_path_factory.mktemp("everywhere") / "savepoint")


def chosen_format(backend: str | None) -> dict[str, str]:
    return {"format": "canonical"} if backend is None else {"format": "native", "backend": backend}


def occurrences(path: Path, text: str) -> int:
    """In the bytes of all files, without decompression: new canonical savepoints are not compressed."""
    return sum(file.read_bytes().count(text.encode(e)) for file in path.iterdir() for e in ("utf-8", "utf-16-be"))


@FORMATS
def test_the_narrowest_chosen_action_removes_a_text_in_each_kind_of_state(everywhere: Path, tmp_path: Path, backend: str) -> None:
    target = tmp_path / "new"
    report = sp.erase(everywhere, target, text="zoë@example.com", remove=ALL, **chosen_format(backend))
    assert report.is_clean
    assert {(row["state"], row["action"], row["count"]) for row in report.removed} == {
        ("value", "fields", 1),
        ("friends", "entries", 1),
        ("seen", "keys", 1),
        ("_timer_state/event_t", "keys", 1),
        ("pending", "elements", 1),
        ("shared", "elements", 1),
        ("rules", "entries", 1),
    }
    assert not sp.find(target, text="zoë@")
    assert occurrences(everywhere, "zoë@") > 0
    assert occurrences(target, "zoë@") == 0
    (row,) = (r for batch in sp.arrow.read_state(target, "people", "value", keys=[3]) for r in batch.to_pylist())
    assert row["value"] == {"f0": "user3", "f1": ["x", None]}
    assert sp.arrow.read_state(target, "friends", "friends").read_all().num_rows == 9
    assert sp.arrow.read_state(target, "sink", "pending").read_all()["value"].to_pylist() == ["for bob"]


def test_a_place_without_a_chosen_action_is_an_error_that_names_it(everywhere: Path, tmp_path: Path) -> None:
    with pytest.raises(sp.OptionError, match=r"remove is fields, which does not apply .*state 'seen', key 'zoë@example.com'"):
        sp.erase(everywhere, tmp_path / "new", text="zoë@", remove="fields")
    assert not (tmp_path / "new").exists()
    with pytest.raises(sp.OptionError, match="expected some of keys, entries, elements, fields, found 'key'"):
        sp.erase(everywhere, tmp_path / "new", text="zoë@", remove="key")
    with pytest.raises(sp.OptionError, match="nothing to erase"):
        sp.erase(everywhere, tmp_path / "new", remove="keys")


@FORMATS
def test_a_key_leaves_all_states_and_no_bytes(tmp_path: Path, backend: str | None) -> None:
    target = tmp_path / "new"
    report = sp.erase(NATIVE, target, key="beatriz", remove="keys", **chosen_format(backend))
    assert report
    assert {row["state"] for row in report.removed} >= {"total", "items", "history", "profile", "session"}
    assert occurrences(target, "beatriz") == 0
    assert not sp.find(target, key="beatriz")
    assert sp.arrow.lookup(target, "orders", "amelia").states["total"]["value"].to_pylist() == [3950]
    changed = {row["state_name"]: (row["deletes"], row["inserts"]) for row in sp.arrow.diff_summary(NATIVE, target).to_pylist()}
    assert changed["total"] == (1, 0)
    assert changed["offsets"] == (0, 0)


def test_files_that_keep_deleted_entries_are_rewritten(tmp_path: Path) -> None:
    """A patch leaves the entries of a deleted key below its deletion: a later erasure removes the bytes."""
    patched = tmp_path / "patched"
    writer = sp.arrow.SavepointWriter.from_existing(NATIVE)
    writer.delete_keys("orders", [{"key": "beatriz"}]).write(patched, format="native", backend="rocksdb")
    assert not sp.find(patched, text="beatriz")
    report = sp.erase(patched, tmp_path / "new", text="beatriz", remove="keys", format="native", backend="rocksdb")
    assert (report.is_clean, report.removed, [row["operator"] for row in report.rewritten]) == (True, [], ["orders"])
    left = sp.erase(patched, tmp_path / "other", text="milan", remove="keys", format="native", backend="rocksdb")
    assert left.is_clean


def test_what_reading_still_finds_is_not_clean(everywhere: Path, tmp_path: Path) -> None:
    report = sp.erase(everywhere, tmp_path / "new", key="zoë@example.com", remove="keys")
    assert not report
    assert {row["operator"] for row in report.removed} == {"timed"}
    assert sum(row["count"] for row in report.remaining_files) >= 4
    assert report.remaining == []
    assert "NOT CLEAN" in str(report)
    content = json.loads(report.to_json())
    assert (content["clean"], content["sought"]) == (False, {"key": ["key 1"]})
    assert json.loads(report.to_json(reveal=True))["sought"] == {"key": ["zoë@example.com"]}
    assert "zoë" not in report.to_json() + str(report) + repr(report)
    assert content["source_sha256"] != content["target_sha256"]


def test_a_small_number_can_not_be_told_from_other_bytes(everywhere: Path, tmp_path: Path) -> None:
    report = sp.erase(everywhere, tmp_path / "new", key=3, remove="keys")
    assert (report.is_clean, report.unsearched) == (True, ["key 3"])
    assert not sp.find(tmp_path / "new", key=3)


def test_a_tuple_is_one_key(everywhere: Path, tmp_path: Path) -> None:
    with pytest.raises(sp.OptionError, match=r"no operator has keys of the type of \('zoë@example.com', 3\)"):
        sp.erase(everywhere, tmp_path / "new", key=("zoë@example.com", 3), remove="keys")
    assert not (tmp_path / "new").exists()
    assert sp.erase(everywhere, tmp_path / "new", key=[3, 4], remove="keys").unsearched == ["key 3", "key 4"]


def test_a_key_that_no_operator_can_have_is_refused_with_the_types_of_the_keys(everywhere: Path, tmp_path: Path) -> None:
    """Keys that can't be read are no keys of another type."""
    unread = with_unknown_class("orders-hashmap-canonical", STRING, tmp_path / "unread")
    writer = sp.arrow.SavepointWriter.new(1, "1.20").with_list_state("q", "l", [{"value": "x"}], sp.Types.STRING())
    writer.write(tmp_path / "lists")
    reasons = {
        everywhere: r"2\.5: the keys are .*LONG in people",
        unread: r"keyed state can't be read\. State that can't be read: .*com\.acme\.",
        tmp_path / "lists": "there is no keyed state",
    }
    for path, reason in reasons.items():
        for ask in (lambda path: sp.erase(path, tmp_path / "new", key=2.5, remove="keys"), lambda path: sp.find(path, key=2.5)):
            with pytest.raises(sp.OptionError, match=reason):
                ask(path)


def test_an_operator_is_for_a_condition(everywhere: Path, tmp_path: Path) -> None:
    with pytest.raises(sp.OptionError, match="uid is for where"):
        sp.erase(everywhere, tmp_path / "new", key=3, uid="people", remove="keys")
    assert cli.main(["erase", str(everywhere), str(tmp_path / "new"), "--key", "3", "--state", "value", "--remove", "keys"]) == 2


def test_a_condition_selects_rows(everywhere: Path, tmp_path: Path) -> None:
    of_rows = {"where": "value.f0 LIKE 'user%' AND key < 5", "uid": "people", "state": "value", "remove": "keys"}
    report = sp.erase(everywhere, tmp_path / "keys", **of_rows)
    assert report
    assert (report.unsearched, report.files, report.bytes) == (["where"], 0, 0)
    assert "where was not searched for in bytes" in str(report)
    assert str(report).endswith("Nothing is left: read again")
    assert sorted(sp.arrow.read_state(tmp_path / "keys", "people", "value").read_all()["key"].to_pylist()) == [5, 6, 7, 8, 9]
    of_map = {"where": "map_value = 12345", "uid": "friends", "state": "friends", "remove": "entries"}
    assert sp.erase(everywhere, tmp_path / "entries", **of_map)
    assert sp.arrow.read_state(tmp_path / "entries", "friends", "friends").read_all().num_rows == 1
    with pytest.raises(sp.OptionError, match="where needs uid and state"):
        sp.erase(everywhere, tmp_path / "new", where="true", remove="keys")


def test_the_command_writes_the_report(everywhere: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "report.json"
    arguments = ["erase", str(everywhere), str(tmp_path / "new"), "--text", "zoë@", "--report", str(file)]
    assert cli.main([*arguments, *(part for action in ALL for part in ("--remove", action))]) == Answer.UNCHECKED.exit_code
    assert "Nothing is left, as far as state can be decoded" in capsys.readouterr().out
    assert json.loads(file.read_text("utf-8"))["clean"] is True
    again = ["erase", str(everywhere), str(tmp_path / "again"), "--key", "3", "--remove", "keys", "--report", str(file)]
    assert cli.main(again) == 2
    assert "report.json exists" in capsys.readouterr().err
    assert not (tmp_path / "again").exists()
    assert cli.main([*again, "--overwrite"]) == 0
    assert json.loads(file.read_text("utf-8"))["sought"] == {"key": ["key 1"]}
    assert cli.main([*again, "--overwrite", "--reveal"]) == 0
    assert json.loads(file.read_text("utf-8"))["sought"] == {"key": ["3"]}
    capsys.readouterr()
    only_keys = ["erase", str(everywhere), str(tmp_path / "other"), "--key", "zoë@example.com", "--remove", "keys", "--json"]
    assert cli.main(only_keys) == cli.NO
    assert json.loads(capsys.readouterr().out)["clean"] is False


def entries_of_python(path: Path, state: str) -> dict[str, list[tuple[bytes, ...]]]:
    """Elements or entries of a state of a PyFlink job, by key: bytes, as Java has them."""
    found: dict[str, list[tuple[bytes, ...]]] = {}
    for row in sp.arrow.read_state(path, "py-keyed", state).read_all().to_pylist():
        parts = [row[name] for name in ("list_value", "map_key", "map_value") if name in row]
        found.setdefault(row["key"], []).append(tuple(parts))
    return {key: sorted(parts) if len(parts[0]) == 2 else parts for key, parts in found.items()}


@FORMATS
def test_texts_in_pickled_values_are_erased(tmp_path: Path, backend: str | None) -> None:
    source, target = unpacked() / "2.3.0" / "pyflink-hashmap-canonical" / "savepoint", tmp_path / "new"
    before = {state: entries_of_python(source, state) for state in ("map-pickled", "value-pickled", "list-string")}
    report = sp.erase(source, target, text=["p21", "text é 59"], remove=("entries", "elements"), **chosen_format(backend))
    assert report.is_clean
    assert {(row["state"], row["action"], row["count"]) for row in report.removed} == {
        ("python-state-map-pickled", "entries", 1),
        ("python-state-value-string", "elements", 1),
    }
    after = {state: entries_of_python(target, state) for state in before}
    gone = [entry for entry in before["map-pickled"]["key-0"] if b"p21" in entry[0]]
    assert len(gone) == 1
    before["map-pickled"]["key-0"].remove(gone[0])
    assert after == before
    assert "key-3" not in entries_of_python(target, "value-string")

    report = sp.erase(target, tmp_path / "newer", text="tuple", remove="entries", **chosen_format(backend))
    assert report.is_clean
    assert entries_of_python(tmp_path / "newer", "map-pickled") == {}
    assert entries_of_python(tmp_path / "newer", "value-pickled") == before["value-pickled"]


def test_rows_of_a_global_window_are_accepted_as_they_are_read(tmp_path: Path) -> None:
    (case,) = packed_cases("1.20.5/windows-kinds-rocksdb-canonical")
    rows = sp.arrow.read_state(case.snapshot, "global-count", "window-contents").read_all()
    assert rows["window"].null_count == rows.num_rows == 5
    writer = sp.arrow.SavepointWriter.from_existing(case.snapshot)
    summary = writer.update_keyed_state("global-count", "window-contents", rows).write(tmp_path / "same")
    assert [(c.counts.updated, c.counts.inserted) for o in summary.operators for c in o.changes] == [(5, 0)]
    key = rows["key"][0].as_py()
    chosen = {"uid": "global-count", "state": "window-contents", "where": f"key = '{key}'"}
    report = sp.erase(case.snapshot, tmp_path / "new", remove="entries", **chosen)
    assert report.is_clean
    left = sp.arrow.read_state(tmp_path / "new", "global-count", "window-contents").read_all()
    assert left.num_rows == 4
    assert key not in left["key"].to_pylist()


@pytest.mark.parametrize("uid", ["orders", "bc4197a480c92c793190a9f8c0afc54c"])
@pytest.mark.parametrize("version", ["1.20.5", "2.3.0"])
def test_a_condition_finds_its_operator_by_uid_and_by_hash(version: str, uid: str, tmp_path: Path) -> None:
    path = FIXTURES / version / "orders-hashmap-canonical" / "savepoint"
    report = sp.erase(path, tmp_path / "new", remove="keys", uid=uid, state="total", where="key = 'amelia'")
    assert report.is_clean
    assert [(row["action"], row["count"]) for row in report.removed] == [("keys", 1)]
    with pytest.raises(sp.NotFoundError, match=r"no state 'totl' in operator .*Did you mean 'total'"):
        sp.erase(path, tmp_path / "other", remove="keys", uid=uid, state="totl", where="key = 'amelia'")


@pytest.mark.parametrize(("remove", "changed"), [("fields", 0), (("elements", "entries"), None)])
def test_elements_without_the_text_keep_their_bytes(remove: str, changed: int | None, tmp_path: Path) -> None:
    (case,) = packed_cases("1.20.5/operator-state-hashmap-canonical")
    report = sp.erase(case.snapshot, tmp_path / "new", text="c0", remove=remove)
    assert not report.remaining
    forms = (b"c0", b"c\xb0")  # Kryo marks the last character of a text
    for state in ("union-accounts", "accounts"):
        before, after = elements(case.snapshot, state), elements(tmp_path / "new", state)
        kept = Counter(e for e in before if not any(text in e for text in forms))
        assert kept
        assert not kept - Counter(after)
        assert not any(text in e for e in after for text in forms)
        assert len(after) == (len(before) if changed == 0 else kept.total())


def elements(path: str | Path, name: str) -> list[bytes]:
    """The bytes of the elements of a state in all subtasks, and of the entries of broadcast state in the first."""
    snapshot = open_snapshot(path)
    (operator,) = [o for o in snapshot.metadata.operators if name in operator_states(snapshot, o)][:1]
    reader = open_state(StoredOperator(snapshot, operator), name)
    assert isinstance(reader, OperatorStateReader)
    if operator_states(snapshot, operator)[name].kind == "BROADCAST":
        (split,) = reader.splits()
        return list(reader.broadcast_entries(split))
    found = []
    for split in reader.splits():
        data, bounds = raw_elements(snapshot, split, name)
        found += [data[a:b].tobytes() for a, b in pairwise(bounds.tolist())]
    return found
