"""The types that all generators and NLI models share, and their stand-ins."""

from __future__ import annotations

import numpy as np
import pytest

from epibias.errors import InputError
from epibias.generators import (
    CachedGenerator,
    Failure,
    FixedGenerator,
    Generator,
    Prompt,
    Reply,
)
from epibias.generators.base import Sampling
from epibias.nli import NLI, FixedNLI

PROMPT = Prompt("own", "1", "Why?")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"temperature": 2.5}, "temperature: expected a finite number from 0 to 2"),
        ({"temperature": float("nan")}, "temperature"),
        ({"max_tokens": 0}, "max_tokens: expected an integer of at least 1"),
        ({"seed": -1}, "seed"),
        ({"stop": "end"}, "stop: expected a sequence of texts, got one text"),
        ({"stop": ["end", ""]}, "place 1"),
        ({"repeat": True}, "repeat"),
    ],
)
def test_parameters_out_of_range(wrong, message):
    with pytest.raises(InputError) as caught:
        Sampling(**wrong)
    assert message in str(caught.value)


def test_each_prompt_and_repeat_has_a_seed_of_its_own_and_no_seed_stays_none():
    others = [Prompt("own", "1", "Who?"), Prompt("own", "1", "Why?", "Be brief.")]
    seeds = [Sampling(seed=7, repeat=n).seed_of(PROMPT) for n in range(3)]
    seeds += [Sampling(seed=7).seed_of(other) for other in others]
    seeds += [Sampling(seed=8).seed_of(PROMPT)]
    assert len(set(seeds)) == 6
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert seeds[0] == Sampling(seed=7, temperature=0.5).seed_of(Prompt("own", "1", "Why?"))
    assert Sampling(seed=None, repeat=3).seed_of(PROMPT) is None


def test_what_a_cache_takes_for_one_request_has_one_seed(tmp_path):
    renamed = Prompt("new", "2", PROMPT.user, PROMPT.system)
    assert Sampling(seed=7).seed_of(renamed) == Sampling(seed=7).seed_of(PROMPT)
    path = tmp_path / "replies.jsonl"
    CachedGenerator(FixedGenerator("so"), path).generate([PROMPT])
    assert CachedGenerator(None, path).generate([renamed])[0].text == "so"


def test_prompts_are_checked_and_hashed():
    with pytest.raises(InputError, match=r"user: expected a text that is not blank"):
        Prompt("own", "1", " ")
    with pytest.raises(InputError, match=r"lone surrogate"):
        Prompt("own", "1", "Why?", "\ud800")
    others = [
        Prompt("own", "2", "Why?"),
        Prompt("own", "1", "Why?", "Be brief."),
        Prompt("own", "1", "Be brief.", "Why?"),
        Prompt("o", "1", "Why?"),
    ]
    assert len({PROMPT.sha256, *(other.sha256 for other in others)}) == 5


def test_a_failure_has_one_of_the_known_reasons():
    with pytest.raises(InputError, match=r"reason: expected 'down' or"):
        Failure("tired", "no", 1)


def test_the_fixed_generator_in_its_three_forms():
    down = Failure("down", "not there", 2)
    turns = FixedGenerator(["a", down, " "])
    results = turns.generate([PROMPT] * 4)
    assert isinstance(turns, Generator)
    assert results[:2] == [Reply("a", "stop", None, None), down]
    assert results[2].reason == "empty"
    assert results[3] == results[0]
    assert turns.n_calls == 4
    assert FixedGenerator("yes").generate([PROMPT])[0].text == "yes"
    by_prompt = FixedGenerator(lambda prompt, repeat: f"{prompt.name}{repeat}")
    assert by_prompt.generate([PROMPT], repeat=3)[0].text == "own3"
    with pytest.raises(InputError, match=r"prompts: expected a sequence of Prompt"):
        turns.generate(PROMPT)
    with pytest.raises(InputError, match=r"place 1"):
        turns.generate([PROMPT, "Why?"])


def test_the_fixed_nli_checks_what_it_is_given_and_gives():
    nli = FixedNLI(
        lambda premise, hypothesis: (0.5, 0.25, 0.25) if premise < hypothesis else (0, 1, 0)
    )
    assert isinstance(nli, NLI)
    np.testing.assert_array_equal(
        nli.probabilities(["a", "b"], ["b", "a"]),
        np.array([[0.5, 0.25, 0.25], [0, 1, 0]], np.float32),
    )
    assert nli.probabilities([], []).shape == (0, 3)
    with pytest.raises(
        InputError, match=r"hypotheses: expected 2 rows, as many as premises, got 1"
    ):
        nli.probabilities(["a", "b"], ["b"])
    with pytest.raises(InputError, match=r"premises: expected a text that is not blank.*row 1"):
        nli.probabilities(["a", " "], ["b", "c"])
    with pytest.raises(InputError, match=r"rows that add up to 1.*row 0"):
        FixedNLI(lambda premise, hypothesis: (1, 1, 0)).probabilities(["a"], ["b"])
    with pytest.raises(InputError, match=r"shape \(1, 3\)"):
        FixedNLI(lambda premise, hypothesis: (1, 0)).probabilities(["a"], ["b"])
