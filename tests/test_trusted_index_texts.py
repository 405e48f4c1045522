"""Trusted indexes of texts: what a store's precision, and one letter more, do to a fingerprint."""

from __future__ import annotations

import re

import numpy as np

from epibias.data_sets import load_debates
from epibias.defenses.trusted_index import SAME, TrustedIndex, _signs
from epibias.kernels_trusted import fingerprints, mark_untrusted


def test_a_store_of_float16_is_known_and_one_letter_more_is_not(remembering):
    """What the page says of the tolerance, by the encoder that the package names."""
    texts = [one.text for topic in load_debates() for one in topic.benign[:3]]
    edits = {
        "full stop": lambda text: text.rstrip(".!?"),
        "digit": lambda text: re.sub(
            r"\d", lambda found: str((int(found[0]) + 3) % 10), text, count=1
        ),
        "article": lambda text: text.replace(" the ", " a ", 1),
        "negation": lambda text: text.replace(" is ", " is not ", 1),
    }
    rows = remembering.encode(texts)
    trusted = TrustedIndex.of(rows)
    each = np.arange(len(texts) + 1)
    half = rows.astype(np.float16).astype(np.float32)
    signs = _signs(rows.shape[1])
    moved = np.abs(fingerprints(half, signs) - fingerprints(rows, signs)).max()
    assert moved < SAME / 3
    for edit in edits.values():
        changed = [text for text in map(edit, texts) if text not in texts]
        assert len(changed) >= 10
        own = fingerprints(remembering.encode(changed), signs)
        assert mark_untrusted(trusted.table, own, each[: len(changed) + 1]).all()
