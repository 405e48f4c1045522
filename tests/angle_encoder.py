"""An encoder whose embeddings can be worked out by hand: the text says its own angle.

"… angle 30 …" becomes (cos 30°, sin 30°, 0), so cosines are cosines of differences of angles and
scores on the second axis are sines. A text that names several angles adds their rows up; one that
names none becomes (0, 0, 1).
"""

from __future__ import annotations

import re

import numpy as np

_ANGLE = re.compile(r"angle (-?\d+)")


class AngleEncoder:
    """Rows from the angles that texts name; counts what it encodes."""

    identity = {"name": "angles", "dim": 3}  # noqa: RUF012 (read only)

    def __init__(self) -> None:
        self.batches: list[int] = []

    def encode(self, texts: list[str]) -> np.ndarray:
        self.batches.append(len(texts))
        return np.stack([_row(text) for text in texts]).astype(np.float32)


def _row(text: str) -> np.ndarray:
    angles = np.radians([float(number) for number in _ANGLE.findall(text)])
    if not len(angles):
        return np.array([0.0, 0.0, 1.0])
    return np.array([np.cos(angles).sum(), np.sin(angles).sum(), 0.0])
