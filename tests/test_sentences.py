"""Sentences: full stops inside numbers, names and abbreviations do not end one."""

from __future__ import annotations

import pytest

from epibias.corpus.sentences import sentences


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("  \n ", []),
        ("No full stop", ["No full stop"]),
        ("One. Two! Three? Four…", ["One.", "Two!", "Three?", "Four…"]),
        ("It cost $3.50 in 2024. 14 towns paid.", ["It cost $3.50 in 2024.", "14 towns paid."]),
        ("Mr. Hall of the U.S. Senate left.", ["Mr. Hall of the U.S. Senate left."]),
        ("J. R. Stone wrote it. He won.", ["J. R. Stone wrote it.", "He won."]),
        ("See fig. 3, e.g. Trees. Done.", ["See fig. 3, e.g. Trees.", "Done."]),
        ("Line No. 4 runs. Does it? No. It waits.",
         ["Line No. 4 runs.", "Does it?", "No.", "It waits."]),
        ('"Go!" she said. "Why?" He went.', ['"Go!" she said.', '"Why?"', "He went."]),
        ("A line\nbreak. And\n\nparagraph without end\n\nNext.",
         ["A line break.", "And", "paragraph without end", "Next."]),
        ("Wait... Then it came.", ["Wait...", "Then it came."]),
        ("Wait... then it came.", ["Wait... then it came."]),
    ],
)  # fmt: skip
def test_sentences_of_hand_split_texts(text, expected):
    assert sentences(text) == expected


def test_no_word_is_lost():
    text = "Dr. A. Lee paid 3.5% more. (Was it much?) “No.” In the U.S. it is, vs. Japan, less."
    assert " ".join(sentences(text)) == text
