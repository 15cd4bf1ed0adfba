"""Answers of checks: yes, no, or not everything could be checked."""

from __future__ import annotations

from enum import StrEnum


class Answer(StrEnum):
    """The answer of a check. It is also the exit code of its command.

    ``yes``: everything was checked. ``no``: something is wrong, whatever else could not be checked. The third answer is not a
    success: nothing wrong was found, and something could not be checked.
    """

    YES = "yes"
    NO = "no"
    UNCHECKED = "not everything could be checked"

    @classmethod
    def of(cls, *, wrong: bool, unchecked: bool) -> Answer:
        """Return the answer: what is wrong outweighs what could not be checked.

        ``wrong``: whether something is wrong. ``unchecked``: whether something could not be checked.
        """
        if wrong:
            return cls.NO
        return cls.UNCHECKED if unchecked else cls.YES

    @property
    def exit_code(self) -> int:
        """The exit code of commands: 0, 1 or 3. 2 is an error."""
        return {Answer.YES: 0, Answer.NO: 1, Answer.UNCHECKED: 3}[self]
