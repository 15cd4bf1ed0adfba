"""The check of prose finds constructions in docstrings, comments, messages and pages, and in nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.packaging import prose

MODULE = '''"""The plan says it."""

def read(path):
    """Return the rows.

    There is ``what it was`` in code.
    """
    name = "those of nobody"  # written anew
    if not path:
        raise ValueError(f"{path}: the file has no header, {name}")
'''


def found(path: Path, text: str) -> list[tuple[int, str]]:
    path.write_text(text, "utf-8")
    return sorted((f.passage.line, f.words) for p in prose.passages(path) for f in prose.findings(p))


def test_modules(tmp_path: Path) -> None:
    assert found(tmp_path / "module.py", MODULE) == [(1, "plan says"), (8, "anew"), (10, "has no")]


def test_pages(tmp_path: Path) -> None:
    code = "```python\nwhat = 'what it was'  # as it is\n```"
    page = f"# Title\n\nA key, which is new.\n\n{code}\n\nRead `those of` it.\n\nIt has none.\n"
    assert found(tmp_path / "page.md", page) == [(3, ", which is"), (11, "has none")]


@pytest.mark.parametrize(
    "text", ["Negate the verb: it is not a number.", "The keys of the job are records.", "Somewhat the same."]
)
def test_plain_words(tmp_path: Path, text: str) -> None:
    assert found(tmp_path / "page.md", text) == []


def test_rates(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("It has none. " + "word " * 97)
    (tmp_path / "b.md").write_text("word " * 100)
    rate, constructions = prose.rate(tmp_path)
    assert (rate, [str(c).rpartition("/")[2] for c in constructions]) == (5.0, ["a.md:1: 'has none': negate the verb"])


def test_a_room_above_its_limit_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.md").write_text("It has none. " + "word " * 97)
    monkeypatch.setattr("sys.argv", ["prose"])
    for limit, status in ((9.0, 1), (11.0, 0)):
        monkeypatch.setattr(prose, "LIMITS", {str(tmp_path): limit})
        assert prose.main() == status
    assert "10.0 constructions to read twice in 1,000 words, at most 9.0 are allowed" in capsys.readouterr().out
