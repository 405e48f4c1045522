"""Where lines, axes and embeddings of a command come from, and what of them is kept or shown."""

from __future__ import annotations

import io
import json
import re
import sys

import numpy as np
import pytest

from cli_files import (
    ANCHORS,
    candidates,
    command_files,  # noqa: F401 (the fixture "files")
    fake_in_commands,  # noqa: F401 (the fixture "fake")
    write,
)
from epibias.cli import main
from fake_encoder import FakeEncoder

TEXT_ANCHORS = [{"text": f"good fine great {i}", "stance": 1} for i in range(3)] + [
    {"text": f"bad poor awful {i}", "stance": -1} for i in range(3)
]
GATED = ["--gate", "1", "--permutations", "99", "--k", "3", "--method", "ridge", "--json"]


def gated_p_values(capsys, queries, anchors):
    assert main(["filter", queries, "--anchors", anchors, *GATED]) == 0
    found = json.loads(capsys.readouterr().out)["queries"]
    return {query["query_id"]: query["p_value"] for query in found}


def test_a_p_value_depends_on_the_query_not_on_its_line(files, tmp_path, capsys):
    queries = [
        {"query_id": f"q{i}", "query_vector": [1, 0.1, 0], "candidates": candidates(20, 5)}
        for i in range(6)
    ]
    first = gated_p_values(capsys, write(tmp_path / "q.jsonl", queries), files["anchors"])
    # The same candidates, so only the keys of the shuffles differ: if they did not, all were equal.
    assert len(set(first.values())) > 1
    for some in (queries[::-1], queries[3:4], queries[2:]):
        again = gated_p_values(capsys, write(tmp_path / "q.jsonl", some), files["anchors"])
        assert again == {query["query_id"]: first[query["query_id"]] for query in some}


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ((7, "b"), "query_id: expected an id that is a text, got 7"),
        (([0.125] * 9, "b"), "query_id: expected an id that is a text, got list of length 9"),
        (("", "b"), "query_id: expected an id without control characters"),
        (("a", "a"), "query_id: expected each id once, got 'a' again"),
    ],
)
def test_a_query_id_is_a_text_and_stands_once(files, tmp_path, capsys, ids, message):
    queries = [
        {"query_id": one, "query_vector": [1, 0, 0], "candidates": candidates()} for one in ids
    ]
    path = write(tmp_path / "q.jsonl", queries)
    assert main(["filter", path, "--anchors", files["anchors"]]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.usefixtures("fake")
def test_two_queries_may_have_a_candidate_in_common(tmp_path, capsys):
    some = [{"id": f"c{i}", "text": f"good thing {i}"} for i in range(6)]
    queries = [
        {"query_id": f"q{i}", "query": f"is thing {i} good", "candidates": some} for i in range(2)
    ]
    arguments = ["filter", write(tmp_path / "q.jsonl", queries), "--json", "--preset", "bare"]
    anchors = write(tmp_path / "a.jsonl", TEXT_ANCHORS)
    assert main([*arguments, "--anchors", anchors, "--method", "mean_difference"]) == 0
    first, second = json.loads(capsys.readouterr().out)["queries"]
    assert {one["id"] for one in first["selected"] + first["dropped"]} <= {c["id"] for c in some}
    assert second["n_selected"] > 0


def test_side_auto_needs_a_neutral_centre(files, tmp_path, capsys):
    axis = tmp_path / "axis.json"
    saved = ["--anchors", files["anchors"], "--method", "ridge", "--save-axis", str(axis)]
    assert main(["score", files["passages"], *saved]) == 0
    auto = ["filter", files["queries"], "--axis", str(axis), "--side", "auto"]
    assert main(auto) == 0
    record = json.loads(axis.read_text(encoding="utf-8"))
    axis.write_text(json.dumps({**record, "neutral_centre": None}), encoding="utf-8")
    capsys.readouterr()
    assert main(auto) == 2
    assert "neutral_centre: expected a finite number, got None" in capsys.readouterr().err


@pytest.mark.usefixtures("fake")
def test_an_axis_is_refused_for_passages_of_another_encoder(files, tmp_path, capsys, monkeypatch):
    texts = write(tmp_path / "t.jsonl", [{"id": "t", "text": "good word"}])
    of_texts, of_vectors = str(tmp_path / "texts.json"), str(tmp_path / "vectors.json")
    anchors = write(tmp_path / "a.jsonl", TEXT_ANCHORS)
    assert main(["score", texts, "--anchors", anchors, "--save-axis", of_texts]) == 0
    assert main(["score", texts, "--axis", of_texts]) == 0
    assert (
        main(["score", files["passages"], "--anchors", files["anchors"], "--save-axis", of_vectors])
        == 0
    )
    capsys.readouterr()
    assert main(["score", files["passages"], "--axis", of_texts]) == 2
    assert "encoder: expected texts, by 'fake', as the axis" in capsys.readouterr().err
    assert main(["score", texts, "--axis", of_vectors]) == 2
    assert "encoder: expected vectors, as the axis" in capsys.readouterr().err
    monkeypatch.setattr(FakeEncoder, "identity", {"name": "fake", "dim": 48, "revision": "2"})
    assert main(["score", texts, "--axis", of_texts]) == 2
    assert "encoder.revision: expected 'nothing', as the axis" in capsys.readouterr().err
    assert main(["score", texts, "--anchors", files["anchors"]]) == 2
    assert "passages: expected vectors, as in anchors, got texts" in capsys.readouterr().err


@pytest.mark.parametrize(("options", "kept"), [([], True), (["--no-cache"], False)])
def test_where_embeddings_are_kept_is_said_or_nothing_is_kept(
    tmp_path, capsys, monkeypatch, options, kept
):
    from epibias.cli import axis_source
    from epibias.encoder.cache import default_folder

    asked = []

    def load(name, *, cache, progress):
        asked.append(cache)
        return FakeEncoder()

    monkeypatch.setattr(axis_source, "SentenceTransformerEncoder", load)
    texts = write(tmp_path / "t.jsonl", [{"id": "t", "text": "good word"}])
    anchors = write(tmp_path / "a.jsonl", TEXT_ANCHORS)
    assert main(["score", texts, "--anchors", anchors, *options]) == 0
    said = [line for line in capsys.readouterr().err.splitlines() if "kept in" in line]
    assert asked == [kept]
    assert len(said) == kept
    assert all(str(default_folder()) in line for line in said)


def test_vectors_alone_say_nothing_of_a_cache(files, capsys):
    assert main(["score", files["passages"], "--anchors", files["anchors"]]) == 0
    assert "kept in" not in capsys.readouterr().err


def test_doctor_names_the_cache_and_its_size(tmp_path, capsys, monkeypatch):
    from epibias.encoder.cache import EmbeddingCache, text_key

    monkeypatch.setenv("EPIBIAS_CACHE", str(tmp_path))
    cache = EmbeddingCache(None, {"model": "m"}, dim=2)
    cache.put([text_key("a")], np.ones((1, 2), np.float32), np.array([False]))
    assert main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["cache"]
    assert found["folder"] == str(tmp_path / "embeddings")
    assert found["n_files"] >= 1
    assert found["bytes"] >= cache.path.stat().st_size > 0


SECRET, WORDS = 0.123456, "the merger is agreed and nobody outside this room may know of it yet"
LEAKY = [
    '{{"id": {vector}, "vector": [1, 2, 3]}}',
    '{{"id": "{words}", "vector": [1, 2, 3]}}\n{{"id": "{words}", "vector": [1, 2, 3]}}',
    '{{"id": "a", "vector": {{"x": {vector}}}}}',
    '{{"id": "a", "text": {vector}}}',
    '{{"id": "a", "text": "x", "title": {vector}}}',
    '{{"id": "a", "vector": [1, 2, {vector}]}}',
    '{{"id": "a", "vector": "{words}"}}',
    '{{"id": "a", "text": "{words}", "title": 3}}',
    '{{"id": "a", "text": "{words}", ',
    '{{"id": "a", "vector": {vector}, ',
    '"{words}"',
    "{vector}",
    "{words}",
]


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize("line", LEAKY)
def test_no_message_repeats_a_vector_or_a_text(files, tmp_path, capsys, line):
    content = line.format(vector=json.dumps([SECRET] * 8), words=WORDS)
    path = tmp_path / "bad.jsonl"
    path.write_text(content + "\n", encoding="utf-8")
    anchors = write(tmp_path / "a.jsonl", TEXT_ANCHORS)
    for option in (["--anchors", files["anchors"]], ["--anchors", anchors]):
        assert main(["score", str(path), *option]) == 2
    assert main(["score", files["passages"], "--axis", str(path)]) == 2
    error = capsys.readouterr().err
    assert str(SECRET) not in error
    assert "merger" not in error


def test_a_byte_order_mark_on_stdin_is_taken(files, capsys, monkeypatch):
    class Stdin:
        buffer = io.BytesIO(b'\xef\xbb\xbf{"_id": "p", "vector": [1, 0.5, 0]}\r\n\r\n')

    monkeypatch.setattr(sys, "stdin", Stdin)
    assert main(["score", "-", "--anchors", files["anchors"]]) == 0
    assert json.loads(capsys.readouterr().out)["id"] == "p"
    Stdin.buffer = io.BytesIO(b'{"id": "p", "id": "q", "vector": [1, 0.5, 0]}\n')
    assert main(["score", "-", "--anchors", files["anchors"]]) == 2
    assert "each field once, got 'id' twice (stdin, line 1)" in capsys.readouterr().err


def test_anchors_name_their_topic_in_words(tmp_path, files, capsys):
    anchors = write(tmp_path / "a.jsonl", [{**one, "topic": 5} for one in ANCHORS])
    assert main(["filter", files["queries"], "--anchors", anchors]) == 2
    assert "topic: expected a text, got 5" in capsys.readouterr().err


VALUES = {
    "criterion": "mi",
    "gate": ".5",
    "side": "auto",
    "mitigation": "mahalanobis",
    "min_kept": "1",
    "min_side": "2",
    "slack": ".1",
    "kappa": ".1",
    "kappa_points": "1",
    "permutations": "99",
    "seed": "0",  # its default: named all the same, so it would be taken for read
    "tau": ".05",
    "n_thresholds": "50",
    "floor": ".1",
}


def test_every_option_that_a_preset_does_not_read_is_refused(files, capsys):
    from epibias.defenses.biasdef_parameters import RULE_PARAMETERS

    rules = {"default": "splits", "bare": "splits", "printed": "printed"}
    known = frozenset().union(*RULE_PARAMETERS.values())
    n_refused = 0
    for preset, rule in rules.items():
        for name in sorted(known - RULE_PARAMETERS[rule]):
            option = f"--{name.replace('_', '-')}"
            arguments = ["--anchors", files["anchors"], "--preset", preset, option, VALUES[name]]
            assert main(["filter", files["queries"], *arguments]) == 2
            expected = f"{option}: expected no such option with --preset {preset}, got"
            assert expected in capsys.readouterr().err
            n_refused += 1
    assert n_refused == 3 + 3 + 11


def topical(anchor_topics, query_topic, tmp_path):
    """Write anchors of some topics and one query; "absent" leaves the field out."""
    anchors = [
        {**anchor, **({} if topic == "absent" else {"topic": topic})}
        for topic in anchor_topics
        for anchor in ANCHORS
    ]
    query = {"query_id": "q", "query_vector": [1, 0, 0], "candidates": candidates()}
    if query_topic != "absent":
        query["topic"] = query_topic
    return [
        "filter",
        write(tmp_path / "q.jsonl", [query]),
        "--anchors",
        write(tmp_path / "a.jsonl", anchors),
    ]


@pytest.mark.parametrize(
    ("anchor_topics", "query_topic", "message"),
    [
        (["phones"], "cars", r"topic: expected a topic of the anchors \('phones'\), got 'cars'"),
        (["absent"], "cars", "topic: expected no topic, for the axis has none, got 'cars'"),
        (["phones", "trains"], "cars", "topic: expected a topic of the anchors"),
        (["phones", "trains"], "absent", "topic: expected a topic of the anchors .*, got none"),
        (["phones"], None, "topic: expected a text, got None"),
        (["phones"], 7, "topic: expected a text, got 7"),
        (["phones"], ["phones"], "topic: expected a text, got list"),
        (["phones"], "\ud800", "topic: expected valid Unicode"),
        ([7], "absent", "topic: expected a text, got 7"),
        ([None], "absent", "topic: expected a text, got None"),
        (["\ud800"], "absent", "topic: expected valid Unicode"),
    ],
)
def test_a_query_of_another_topic_is_not_scored(
    tmp_path, capsys, anchor_topics, query_topic, message
):
    assert main(topical(anchor_topics, query_topic, tmp_path)) == 2
    captured = capsys.readouterr()
    assert re.fullmatch(rf"epibias: {message}.* \(.*line 1\)\n", captured.err)
    assert captured.out == ""


@pytest.mark.parametrize("query_topic", ["phones", "absent"])
def test_a_query_of_the_only_topic_may_say_so(tmp_path, query_topic):
    assert main(topical(["phones"], query_topic, tmp_path)) == 0


def test_a_saved_axis_has_no_topic_to_compare_with(files, tmp_path, capsys):
    axis = str(tmp_path / "axis.json")
    assert (
        main(["score", files["passages"], "--anchors", files["anchors"], "--save-axis", axis]) == 0
    )
    queries = topical(["absent"], "cars", tmp_path)[1]
    assert main(["filter", queries, "--axis", axis]) == 2
    assert "topic: expected no topic, for the axis has none" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("stance", "message"),
    [
        ("9" * 400, "stance: expected a finite number, got an integer of 1329 bits"),
        ("1e400", "stance: expected a finite number, got inf"),
    ],
)
def test_a_stance_beyond_every_float_is_told_with_its_line(
    files, tmp_path, capsys, stance, message
):
    anchors = tmp_path / "a.jsonl"
    lines = [json.dumps(anchor) for anchor in ANCHORS]
    lines[2] = f'{{"vector": [1, 2, 3], "stance": {stance}}}'
    anchors.write_text("\n".join(lines), encoding="utf-8")
    assert main(["score", files["passages"], "--anchors", str(anchors)]) == 2
    assert re.fullmatch(rf"epibias: {message} \(.*line 3\)\n", capsys.readouterr().err)


@pytest.mark.parametrize("field", ["id", "_id"])
def test_lone_surrogates_in_ids_are_told_with_their_line(files, tmp_path, capsys, field):
    passages = write(tmp_path / "p.jsonl", [{field: "\ud800", "vector": [1, 2, 3]}])
    assert main(["score", passages, "--anchors", files["anchors"]]) == 2
    message = r"epibias: id: expected valid Unicode, got a lone surrogate .*line 1\)\n"
    assert re.fullmatch(message, capsys.readouterr().err)
    for query in (
        {"query_id": "\ud800", "query_vector": [1, 0, 0], "candidates": candidates()},
        {"query_id": "q", "query_vector": [1, 0, 0], "candidates": [{"id": "\ud800"}]},
    ):
        queries = write(tmp_path / "q.jsonl", [query])
        assert main(["filter", queries, "--anchors", files["anchors"]]) == 2
        assert "expected valid Unicode, got a lone surrogate" in capsys.readouterr().err
