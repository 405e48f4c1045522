"""Shows what long work tells: lines where they belong, bars on stderr."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epibias.cli.console import console
from epibias.cli.streams import say

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class Terminal:
    """An `experiment.listener.Listener`: lines on stdout (stderr with --json), bars on stderr."""

    def __init__(self, progress: Progress, *, quiet: bool) -> None:
        self._progress, self._quiet = progress, quiet
        self._task: TaskID | None = None

    def say(self, message: str) -> None:
        """Print a line."""
        if self._quiet:
            say(message)
        else:
            console().print(message, markup=False)

    def start(self, description: str, total: int | None) -> None:
        """Put a new bar in place of the last."""
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._task = self._progress.add_task(description, total=total)

    def advance(self, steps: int) -> None:
        """Move the bar."""
        if self._task is not None:
            self._progress.advance(self._task, steps)
