"""The stages still give, to the bit, what they gave when the goldens were made."""

from __future__ import annotations

import json

import pytest

from epibias import _core
from goldens import make_goldens

EXPECTED = json.loads(make_goldens.GOLDENS.read_text(encoding="utf-8"))


@pytest.mark.parametrize("level", _core.simd_levels())
def test_every_level_gives_the_goldens(level):
    before = _core.simd_level()
    _core.set_simd_level(level)
    try:
        found = make_goldens.outputs()
    finally:
        _core.set_simd_level(before)
    assert found.keys() == EXPECTED.keys()
    different = [name for name in EXPECTED if found[name] != EXPECTED[name]]
    assert not different
