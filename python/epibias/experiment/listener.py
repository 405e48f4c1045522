"""What long work tells while it runs."""

from __future__ import annotations

from typing import Protocol


class Listener(Protocol):
    """Takes messages and progress; the command line shows them, tests ignore them."""

    def say(self, message: str) -> None:
        """Take a line for people."""

    def start(self, description: str, total: int | None) -> None:
        """Take the start of a stage with so many steps; None when nobody knows."""

    def advance(self, steps: int) -> None:
        """Take that so many steps of the stage are done."""


class Silent:
    """A listener that ignores everything."""

    def say(self, message: str) -> None:
        """Ignore a line."""

    def start(self, description: str, total: int | None) -> None:
        """Ignore a stage."""

    def advance(self, steps: int) -> None:
        """Ignore steps."""
