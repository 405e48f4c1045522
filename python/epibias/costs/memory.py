"""Resident memory of this process, split into what it owns and what it maps from files.

Anonymous memory is what the process itself holds and the system cannot take back; pages of a mapped
file are in the page cache anyway and leave when memory is short. Read from /proc/self/status, whose
counters lag by at most some hundred KiB.

Reference: Linux, Documentation/filesystems/proc.rst, RssAnon, RssFile, RssShmem.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

STATUS = Path("/proc/self/status")
SAMPLE_SECONDS = 0.01
_FIELDS = {"RssAnon": "anonymous", "RssFile": "file_mapped", "RssShmem": "shared"}


@dataclass(frozen=True)
class ResidentMemory:
    """Resident bytes.

    Parameters
    ----------
    anonymous : int
        Heap, stacks, arrays.
    file_mapped : int
        Pages of mapped files: a memory-mapped corpus, libraries.
    shared : int
        Shared memory; also mapped files of a tmpfs, which is memory and no disk.

    Examples
    --------
    >>> ResidentMemory(1, 5, 0).largest(ResidentMemory(2, 3, 0))
    ResidentMemory(anonymous=2, file_mapped=5, shared=0)
    """

    anonymous: int
    file_mapped: int
    shared: int

    def largest(self, other: ResidentMemory | None) -> ResidentMemory:
        """Take the larger of each field."""
        if other is None:
            return self
        pairs = zip(asdict(self).values(), asdict(other).values(), strict=True)
        return ResidentMemory(*(max(pair) for pair in pairs))


def resident_memory() -> ResidentMemory | None:
    """Read the memory of this process now; None where the system does not tell.

    Examples
    --------
    >>> found = resident_memory()
    >>> found is None or found.anonymous > 1_000_000
    True
    """
    try:
        lines = STATUS.read_text(encoding="ascii").splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    values = dict(line.split(":", 1) for line in lines if ":" in line)
    if not _FIELDS.keys() <= values.keys():  # kernels before 4.5
        return None
    return ResidentMemory(
        **{ours: 1024 * int(values[name].split()[0]) for name, ours in _FIELDS.items()}
    )


class PeakMemory:
    """Samples the memory of this process while phases of work run.

    Read when a phase begins, when it ends, and every 10 ms between: what is taken and given back
    within that time may be missed. A phase in which one reading failed is unknown, None: its
    largest may be the one that was not read.

    Examples
    --------
    >>> peak = PeakMemory()
    >>> with peak.phase("search"):
    ...     pass
    >>> list(peak.phases)
    ['search']
    """

    def __init__(self) -> None:
        self.phases: dict[str, ResidentMemory | None] = {}
        self._unknown: set[str] = set()

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Sample while the body runs; a name that came before is continued."""
        self.phases.setdefault(name, None)
        self._take(name)
        ended = threading.Event()

        def sample() -> None:
            while not ended.wait(SAMPLE_SECONDS):
                self._take(name)

        thread = threading.Thread(target=sample, name="epibias-memory", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
            self._take(name)

    @property
    def anonymous(self) -> int | None:
        """Largest anonymous memory of all phases; None where one of them is unknown."""
        known = [found.anonymous for found in self.phases.values() if found is not None]
        return max(known) if known and len(known) == len(self.phases) else None

    def _take(self, name: str) -> None:
        found = resident_memory()
        if found is None:
            self._unknown.add(name)
        if found is None or name in self._unknown:
            self.phases[name] = None
        else:
            self.phases[name] = found.largest(self.phases[name])
