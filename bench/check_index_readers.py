"""8 concurrent readers of a governed index × 1,000 promotions: no reader sees a mixed version.

Run alone: `python bench/check_index_readers.py`.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from index_readers import main

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        sys.exit(main(Path(made) / "store", 8, 1000))
