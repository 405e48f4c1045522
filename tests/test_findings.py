"""docs/findings.md says what bench/results/debates_run.json says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_page_quotes_the_committed_figures():
    done = subprocess.run(
        [sys.executable, str(ROOT / "bench" / "debates_run.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr or "run python bench/debates_run.py"
