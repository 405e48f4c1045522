"""The report of a run: rewritten after every step, so that one cut short says what it saw."""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
NO_GPU = 77  # exit code

Step = Callable[[], dict[str, Any]]


class Report:
    """Steps and what they found, in a JSON file."""

    def __init__(self, path: Path, **facts: Any) -> None:
        self.path, self.started = path, time.monotonic()
        self.content: dict[str, Any] = {"status": "running", **facts, "steps": {}}
        self._write()

    @property
    def seconds(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self.started

    def run(self, name: str, step: Step) -> dict[str, Any]:
        """Run a step and write what it gives: a dict with a `status`; an exception is a failure."""
        before = self.seconds
        try:
            found = step()
            if found.get("status") not in (PASSED, FAILED, SKIPPED):
                found = {**found, "status": FAILED, "reason": "the step did not say how it ended"}
        except Exception:
            found = {"status": FAILED, "traceback": traceback.format_exc()[-4000:]}
        self.content["steps"][name] = {**found, "seconds": round(self.seconds - before, 1)}
        self._write()
        reason = found.get("reason") or found.get("traceback", "").strip().splitlines()[-1:]
        print(f"[{self.seconds:6.1f} s] {name}: {found['status']} {reason or ''}", flush=True)
        return found

    def close(self, no_gpu: str | None = None) -> int:
        """Write how the run ended; its exit code."""
        states = [step["status"] for step in self.content["steps"].values()]
        if FAILED in states or not states:
            status, code = FAILED, 1
        elif no_gpu:
            status, code = "no GPU", NO_GPU
            self.content["reason"] = no_gpu
        else:
            status, code = PASSED, 0
        self.content["status"] = status
        self._write()
        print(f"{status}: {no_gpu or self.path.name}", flush=True)
        return code

    def _write(self) -> None:
        self.content["elapsed_s"] = round(self.seconds, 1)
        temporary = self.path.with_suffix(".partial")
        temporary.write_text(json.dumps(self.content, indent=1) + "\n", encoding="utf-8")
        temporary.replace(self.path)
