"""200 writers of a governed index killed (SIGKILL) at random moments: nothing torn, nothing lost.

Each stages, promotes, rolls back and appends to both logs; the moment is drawn from a fixed seed.
On a disk, not in memory. Run alone: `python bench/check_index_kills.py`.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from index_kills import main

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        sys.exit(main(Path(made) / "store", 200))
