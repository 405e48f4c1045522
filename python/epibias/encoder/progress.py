"""A progress bar with time left, for what takes longer than two seconds.

Owns when a bar is shown: from the third second on and only to a terminal, unless it is asked for or
forbidden. Writes to stderr; without rich (extra ``cli``) nothing is shown unless it is asked for.
"""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

from epibias import _validate
from epibias.errors import MissingExtraError

SECONDS_WITHOUT_BAR = 2.0


class Progress:
    """Count work done, as a context manager.

    Parameters
    ----------
    description : str
        What is being done.
    total : int
        Units of work in all.
    shown : bool, optional
        True: at once and wherever stderr goes; False: never; None: after two seconds, if stderr is
        a terminal.

    Examples
    --------
    >>> with Progress("encoding", total=10, shown=False) as progress:
    ...     progress.advance(10)
    """

    def __init__(self, description: str, total: int, shown: bool | None = None) -> None:
        self.description, self.total, self.shown = description, total, shown
        self._done = 0
        self._bar: Any = None
        self._task: Any = None
        self._start = time.monotonic()

    def __enter__(self) -> Progress:
        if self.shown:
            self._show()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self, count: int) -> None:
        """Tell that `count` more units are done."""
        self._done += count
        waited = time.monotonic() - self._start > SECONDS_WITHOUT_BAR
        if self._bar is None and self.shown is None and waited and sys.stderr.isatty():
            try:
                self._show()
            except MissingExtraError:
                self.shown = False
        if self._bar is not None:
            self._bar.update(self._task, completed=self._done)

    def _show(self) -> None:
        self._bar = rich_bar()
        self._task = self._bar.add_task(self.description, total=self.total, completed=self._done)
        self._bar.start()


def rich_bar(**options: Any) -> Any:  # noqa: ANN401  rich's Progress; rich is an extra
    """Build the bar that epibias shows everywhere, on stderr; `options` go to rich's Progress."""
    _validate.extra("progress", "rich", "cli")
    import rich.console
    import rich.progress

    options = {"console": rich.console.Console(stderr=True), **options}
    return rich.progress.Progress(
        rich.progress.TextColumn("{task.description}"),
        rich.progress.BarColumn(),
        rich.progress.MofNCompleteColumn(),
        rich.progress.TimeElapsedColumn(),
        rich.progress.TextColumn("elapsed,"),
        rich.progress.TimeRemainingColumn(),
        rich.progress.TextColumn("left"),
        **options,
    )
