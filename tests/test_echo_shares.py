"""`echo_shares`: texts of any script against the definition, ragged batches, what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import reference_tilt
from epibias import _core
from epibias.defenses import echo
from epibias.errors import InputError
from epibias.kernels_tilt import echo_shares

QUESTION = "Should shops close on Sundays?"
# Kinds of one, two and four bytes; letters whose lower case is two, or ASCII; NUL and DEL.
ALPHABETS = [
    "abcdefgh ", "ab c .,!?", "aAbBzZ09 @[`{/:", "äöüßÀÉab ", "ÿ\x80\xa0÷×ab ", "поезд абв",
    "電車 学校", "😀a b𝔘", "İIıKſß ab", "\x00\x7f ab", "Σς Ὀδυσσεύς",
    "a\u00ad\u200bb \u0301\u064e\ufe0f", "가\u1100\u1161\u11a8 ガ\u3099\u3000",
    "\ud800a\x01b \u2003",
]  # fmt: skip


LEVELS = _core.simd_levels()


@pytest.fixture(params=LEVELS)
def _level(request):
    _core.set_simd_level(request.param)
    yield
    _core.set_simd_level(LEVELS[-1])


def texts_of(rng, n, most):
    letters = "".join(rng.choice(ALPHABETS, 2))
    return ["".join(rng.choice(list(letters), int(rng.integers(0, most)))) for _ in range(n)]


@pytest.mark.usefixtures("_level")
def test_shares_are_those_of_the_definition_in_any_script():
    several = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        questions = texts_of(rng, 3, 25)
        sizes = rng.integers(0, 5, 3)
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        passages = texts_of(rng, int(offsets[-1]), 150)
        for row in range(0, len(passages), 2):  # some say the question somewhere
            owner = int(np.searchsorted(offsets, row, side="right")) - 1
            passages[row] += questions[owner].upper() + passages[row][:20]
        shares = echo_shares(questions, passages, offsets, np.arange(3))
        for query in range(3):
            for row in range(offsets[query], offsets[query + 1]):
                expected = reference_tilt.echo_share(
                    questions[query], passages[row], reference_tilt.triple_numbers
                )
                assert shares[row] == expected, (seed, row)
                several += 0 < expected < 1
    assert several > 50


@pytest.mark.usefixtures("_level")
def test_every_letter_counts_as_the_definition_says():
    """Points of all kinds between letters, in blocks of 32 that begin anywhere."""
    beyond = [*range(0x10400, 0x10430), *range(0x1F600, 0x1F620)]
    points = [*range(0xD800), *range(0xE000, 0x10000), *beyond]
    rng = np.random.default_rng(1)
    chosen = [*range(0x180), *rng.choice(points[0x180:], 700).tolist(), *points[-0x50:]]
    questions = [f"a{chr(point)}b" for point in chosen]
    passages = [
        f"{'x' * (30 + point % 4)} a{chr(point)}b {'y' * 40}A{chr(point)} b" for point in chosen
    ]
    shares = echo_shares(questions, passages, np.arange(len(chosen) + 1), np.arange(len(chosen)))
    expected = [
        reference_tilt.echo_share(one, other, reference_tilt.triple_numbers)
        for one, other in zip(questions, passages, strict=True)
    ]
    assert shares.tolist() == expected


def test_with_limits_only_who_is_above_them_is_told():
    rng = np.random.default_rng(8)
    words = [*QUESTION.lower().rstrip("?").split(), "parks", "trams", "open", "a", "of", "late"]
    questions = [" ".join(rng.choice(words, 5)) for _ in range(60)]
    passages = [" ".join(rng.choice(words, int(rng.integers(1, 120)))) for _ in range(600)]
    offsets, queries = np.arange(61) * 10, np.arange(60)
    exact = echo_shares(questions, passages, offsets, queries)
    limits = rng.uniform(0, 1, 60)
    limits[::4] = exact[::40]  # equal is not above
    limits[1::4] = np.nan
    told = echo_shares(questions, passages, offsets, queries, limits)
    flat = np.repeat(limits, 10)
    assert ((told > flat) == (exact > flat)).all()
    assert (told <= exact).all()
    assert (told < exact).any()
    assert np.array_equal(told[np.isnan(flat)], exact[np.isnan(flat)])


@pytest.mark.usefixtures("_level")
def test_kinds_of_strings_do_not_matter():
    plain = "trams close early on sundays, shops should not"
    wide = [plain, plain + " é", plain + " ж", plain + " 😀"]
    narrow = echo_shares([QUESTION], wide, np.array([0, 4]), np.array([0]))
    assert (narrow == narrow[0]).all()
    assert 0 < narrow[0] < 1


@pytest.mark.parametrize(
    "hide",
    [
        "\u00ad".join,  # soft hyphens
        "\u200b".join,  # spaces of no width
        "\x01".join,
        "\u0301".join,  # accents of their own
        lambda text: text.replace("o", "\u00f3"),  # accents that are part of a letter
        lambda text: text.replace(" ", "\u00a0"),
        lambda text: text.replace("S", "\U000e0020S\ufe0f"),
        lambda text: text.replace(" ", "\u2014"),  # dashes
        lambda text: text.replace(" ", " \u00b7 "),  # marks of Latin-1
        lambda text: text.replace(" ", "\u00d7"),
        lambda text: text.replace(" ", "\u3001"),  # and of other scripts
        lambda text: text.replace(" ", "\u2192"),  # symbols
    ],
)
def test_what_an_encoder_does_not_see_hides_no_echo(hide):
    """Encoders give these the very embedding of the question; with marks for spaces, a near one."""
    hidden = f"Well. {hide(QUESTION)} Yes."
    assert hidden.count(QUESTION) == 0
    assert echo.echo_shares(QUESTION, [hidden]).tolist() == [1.0]
    assert echo.echo_shares(hide(QUESTION), [f"So {QUESTION.lower()}"]).tolist() == [1.0]


def test_every_letter_of_latin_greek_and_cyrillic_is_read_as_python_reads_it():
    """Those that fold to one letter are looked up; what stands beside them makes no difference."""
    letters = [chr(point) for point in (*range(0xA0, 0x250), *range(0x370, 0x530))]
    rng = np.random.default_rng(1)
    passages = [f"ab{letter}cd" for letter in letters]
    passages += [f"{a}{b}{c}" for a, b, c in rng.choice(letters, (300, 3))]
    passages += [passage + "\U0001f600" for passage in passages[::7]]  # four bytes a letter
    questions = [reference_tilt.as_read(passage).strip("\U0001f600") for passage in passages]
    n = len(passages)
    shares = echo_shares(questions, passages, np.arange(n + 1), np.arange(n))
    triples = reference_tilt.triple_numbers
    expected = [
        reference_tilt.echo_share(question, passage, triples)
        for question, passage in zip(questions, passages, strict=True)
    ]
    assert shares.tolist() == expected
    assert np.mean(shares == 1.0) > 0.8


def test_triples_of_a_text():
    numbers = reference_tilt.triple_numbers
    assert numbers("a\n b") == numbers("A, b!") != numbers("ab")
    assert len(numbers("To be, or")) == 8
    assert numbers("") == numbers(" ?") == []
    assert echo.echo_shares("Sollen Läden öffnen?", ["Läden öffnen", "Löden äffnen"])[0] > 0.5
    assert echo.echo_shares("?", ["anything"]).tolist() == [0.0]
    assert echo.echo_shares(QUESTION, []).tolist() == []
    assert echo.echo_shares(QUESTION, ["", " ", QUESTION]).tolist() == [0.0, 0.0, 1.0]


def test_queries_do_not_depend_on_their_batch_nor_on_threads():
    rng = np.random.default_rng(3)
    words = [*QUESTION.lower().rstrip("?").split(), "parks", "trams", "open", "a", "of", "late"]
    questions = [" ".join(rng.choice(words, 6)) for _ in range(200)]
    passages = [" ".join(rng.choice(words, 150)) for _ in range(2000)]
    offsets = np.arange(201) * 10
    together = echo_shares(questions, passages, offsets, np.arange(200))
    threads = _core.n_threads()
    try:
        for n_threads in (1, 2, 3):
            _core.set_n_threads(n_threads)
            again = echo_shares(tuple(questions), tuple(passages), offsets, np.arange(200))
            assert np.array_equal(again, together)
    finally:
        _core.set_n_threads(threads)
    some = np.array([7, 190, 3])
    part = echo_shares(questions, passages, offsets, some).reshape(200, 10)
    assert np.array_equal(part[some], together.reshape(200, 10)[some])
    assert np.isneginf(np.delete(part, some, axis=0)).all()
    for query in (0, 50, 199):
        alone = echo.echo_shares(questions[query], passages[10 * query : 10 * query + 10])
        assert np.array_equal(alone, together[10 * query : 10 * query + 10])


def test_a_long_question_and_a_long_passage():
    rng = np.random.default_rng(5)
    letters = list("abcdefghijklmnopqrstuvwxyz 0123456789")
    question = "".join(rng.choice(letters, 3000))
    passage = "".join(rng.choice(letters, 20_000))
    shares = echo.echo_shares(question, [passage, f"{passage[:9000]} {question} {passage[9000:]}"])
    assert 0 < shares[0] < 0.5
    assert shares[1] == 1.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"questions": ["a", 5]}, r"questions: expected texts, got int \(row 1\)"),
        ({"questions": "ab"}, "questions: expected a sequence of texts, got str"),
        ({"questions": None}, "questions: expected a sequence of texts, got NoneType"),
        ({"passages": ["a", None, "c"]}, r"passages: expected texts, got NoneType \(row 1\)"),
        ({"passages": ["a", b"b", "c"]}, r"passages: expected texts, got bytes \(row 1\)"),
        ({"passages": ["a"]}, "offsets: expected offsets that rise from 0 to 1"),
        ({"offsets": np.array([0, 3])}, "offsets: expected 3 of them, one more than queries"),
        ({"offsets": np.array([0, 3, 2])}, "offsets: expected offsets that rise from 0 to 3"),
        ({"offsets": np.array([0, -9, 3])}, "offsets: expected offsets that rise from 0 to 3"),
        ({"offsets": np.zeros(3)}, "offsets: expected dtype int64"),
        ({"queries": np.array([2])}, "queries: expected 0 to 1, got 2"),
        ({"queries": np.array([-1])}, "queries: expected 0 to 1, got -1"),
        ({"queries": [0]}, "queries: expected a numpy array"),
        ({"limits": np.ones(3)}, "limits: expected 2 values, as many as questions, got 3"),
        ({"limits": np.ones(2, np.float32)}, "limits: expected dtype float64"),
    ],
)
def test_refused(change, message):
    given = {"questions": ["a", "b"], "passages": ["a", "b", "c"],
             "offsets": np.array([0, 2, 3]), "queries": np.array([0, 1])}  # fmt: skip
    with pytest.raises(InputError, match=message):
        echo_shares(**{**given, **change})
