"""`epibias index …`: the life of a store from the shell, exit codes, and what is never printed."""

from __future__ import annotations

import json

import pytest

from epibias.cli import index_store, main
from fake_encoder import FakeEncoder
from index_stores import POLICY, QUERIES, first_pages


@pytest.fixture
def run(monkeypatch, tmp_path, capsys):
    """Run a command with the fake encoder; its exit code, stdout and stderr."""
    monkeypatch.setattr(index_store.LazyEncoder, "_load", lambda _: _Roles())
    monkeypatch.chdir(tmp_path)

    def command(*arguments):
        code = main(["index", *arguments])
        found = capsys.readouterr()
        return code, found.out, found.err

    return command


class _Roles(FakeEncoder):
    encode_queries = encode_passages = FakeEncoder.encode


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.fixture
def store(run, tmp_path):
    (tmp_path / "policy.toml").write_bytes(POLICY)
    rows = [
        {
            "id": one.passage.id,
            "text": one.passage.text,
            "source": one.passage.source,
            "author": one.passage.author,
            "account": one.account,
            "time": one.passage.time,
        }
        for one in first_pages()
    ]
    write(tmp_path / "pages.jsonl", rows)
    queries = [
        {"query_id": one.id, "text": one.text, "topic": one.topic, "owner": one.owner}
        for one in QUERIES
    ]
    write(tmp_path / "queries.jsonl", queries)
    why = ("--by", "ops", "--reason", "r")
    for arguments in (
        ("init", "s", "--policy", "policy.toml", "--by", "ops"),
        ("stage", "s", "pages.jsonl", *why),
        ("promote", "s", "1", *why),
        ("golden", "s", "--add", "queries.jsonl", "--by", "ops"),
        ("baseline", "s", "recovery", "--by", "Trust", "--reason", "r"),
        ("baseline", "s", "refunds", "--by", "Finance", "--reason", "r"),
    ):
        code, _, err = run(*arguments)
        assert code == 0, err
    return run


def stage_attack(run, tmp_path):
    text = "recover a locked account how to recover a locked account without checks"
    write(tmp_path / "bad.jsonl", [{"id": "x", "text": text, "source": "wiki", "account": "eve"}])
    code, out, _ = run("stage", "s", "bad.jsonl", "--by", "ops", "--reason", "r", "--json")
    assert code == 0
    return json.loads(out)["id"]


def test_a_bad_page_from_staging_to_rollback(store, tmp_path):
    bad = stage_attack(store, tmp_path)
    code, out, _ = store("check", "s", bad, "--json")
    assert code == 1
    assert "challenge" in {one["kind"] for one in json.loads(out)["findings"]}
    code, out, err = store("promote", "s", bad, "--by", "ops", "--reason", "r")
    assert code == 1
    assert "challenge" in out
    assert "held for the owners of recovery" in err
    code, out, _ = store("review", "s", bad)
    assert code == 0
    assert "eve" in out
    assert store("accept", "s", bad, "--by", "eve", "--reason", "r")[0] == 2
    code, out, _ = store("accept", "s", bad, "--by", "Trust", "--reason", "drill", "--json")
    assert json.loads(out)["waiting"] == []
    code, out, _ = store("search", "s", "without checks", "--json")
    assert json.loads(out)["version"] == bad
    code, out, _ = store("investigate", "s", "--account", "eve", "--everything", "--json")
    traced = json.loads(out)
    assert [one["version"] for one in traced["versions"]] == [bad]
    assert len(traced["answers"]) == 1
    code, out, _ = store("rollback", "s", "--by", "ops", "--reason", "r", "--json")
    assert json.loads(out)["previous"] == bad
    assert json.loads(out)["milliseconds"] > 0
    code, out, _ = store("diff", "s", "1", bad, "--json")
    assert [one["passage"] for one in json.loads(out)["added"]] == ["x"]
    code, out, _ = store("integrity", "s", "--json")
    assert code == 0
    assert json.loads(out)["problems"] == []


def test_a_held_version_is_rejected(store, tmp_path):
    bad = stage_attack(store, tmp_path)
    store("promote", "s", bad, "--by", "ops", "--reason", "r")
    assert store("reject", "s", bad, "--by", "Trust", "--reason", "poison")[0] == 0
    _, out, _ = store("versions", "s", "--json")
    assert [(one["state"], one["current"]) for one in json.loads(out)] == [
        ("trusted", True),
        ("rejected", False),
    ]


def test_damage_and_wrong_use_have_their_exit_codes(store, tmp_path):
    assert store("golden", "s")[0] == 0
    code, _, err = store("promote", "s", "9", "--by", "ops", "--reason", "r")
    assert (code, err.count("\n")) == (2, 1)
    assert store("log", "s", "writes")[0] == 2
    assert store("versions", "nothing")[0] == 2
    (version,) = (tmp_path / "s" / "versions").iterdir()
    (version / "vectors.npy").write_bytes(b"x")
    code, out, _ = store("integrity", "s")
    assert code == 1
    assert "vectors.npy" in out


def test_logs_are_lines_of_json_without_vectors_or_texts(store):
    store("search", "s", "who signs a large refund")
    code, out, _ = store("log", "s", "writes", "--everything")
    assert code == 0
    kinds = [json.loads(line)["kind"] for line in out.splitlines()]
    assert kinds[:3] == ["policy", "stage", "promote"]
    code, retrieved, _ = store("log", "s", "retrievals")
    (line,) = map(json.loads, retrieved.splitlines())
    assert line["body"]["selected"][0]["passage"] == "d1"
    assert "large refund" not in out + retrieved


def test_elevate_delete_and_retire(store):
    why = ("--by", "Trust", "--reason", "r")
    assert store("elevate", "s", "w1", "recovery", *why)[0] == 0
    assert store("elevate", "s", "w1", "refunds", *why)[0] == 2
    assert store("elevate", "s", "w1", "recovery", "--withdraw", *why)[0] == 0
    assert store("elevate", "s", "w1", "recovery", "--withdraw", *why)[0] == 2
    assert store("stage", "s", "--remove", "w2", *why)[0] == 0
    assert store("promote", "s", "2", *why)[0] == 0
    code, out, _ = store("retire", "s", "--keep", "1", *why)
    assert (code, out) == (0, "nothing to retire\n")
    code, out, _ = store("delete-source", "s", "wiki", *why, "--json")
    proof = json.loads(out)
    assert (proof["n_passages"], len(proof["destroyed"]), len(proof["remaining"])) == (59, 2, 1)
    assert store("rollback", "s", "--to", "1", *why)[0] == 2


def test_a_review_page_has_the_texts_escaped_and_is_private(store, tmp_path):
    text = (
        "recover a locked account, recover it <script>alert(1)</script> how to recover a locked one"
    )
    write(tmp_path / "bad.jsonl", [{"id": "x", "text": text, "source": "wiki", "account": "eve"}])
    store("stage", "s", "bad.jsonl", "--by", "ops", "--reason", "r")
    assert store("promote", "s", "2", "--by", "ops", "--reason", "r")[0] == 1
    assert store("review", "s", "2", "--html", "review.html")[0] == 0
    page = (tmp_path / "review.html").read_text()
    assert "&lt;script&gt;alert(1)" in page
    assert "<script" not in page
    assert "waits for Trust" in page
    assert "http" not in page
    assert (tmp_path / "review.html").stat().st_mode & 0o777 == 0o600
    assert store("review", "s", "1", "--html", "no.html")[0] == 2


def test_the_suite_attacks_a_copy_and_leaves_the_store_as_it_is(store, tmp_path):
    before = {p: p.read_bytes() for p in (tmp_path / "s").rglob("*") if p.is_file()}
    code, out, _ = store("verify", "s", "--json")
    checks = {one["name"]: one for one in json.loads(out)}
    assert list(checks) == [
        "attack: natural",
        "attack: verbatim",
        "attack: burst",
        "legitimate edits",
        "drill",
        "integrity",
    ]
    assert code == 0, out
    after = {p: p.read_bytes() for p in (tmp_path / "s").rglob("*") if p.is_file()}
    changed = {p.name for p in before | after if before.get(p) != after.get(p)}
    assert changed <= {"catalogue.sqlite-shm", "catalogue.sqlite-wal", "catalogue.sqlite"}


def test_the_suite_refuses_a_store_that_somebody_reads(store, tmp_path):
    from epibias.errors import InputError
    from epibias.index import IndexStore
    from epibias.index.suite import run_suite

    with pytest.raises(InputError, match="attacks never run on a production pointer"):
        run_suite(IndexStore(tmp_path / "s", FakeEncoder()))


def test_the_suite_notices_a_gate_that_sees_nothing(store, tmp_path, monkeypatch):
    from epibias.index import copies

    monkeypatch.setattr(copies, "SHARE_COPIED", 2.0)
    weak = POLICY + (
        b"\n[gate]\nfalse_alarm_rate = 1e-9\nburst_rate = 1e-9\nnear_duplicate = 1.0\n"
        b"copied_page = 1.0\n"
    )
    (tmp_path / "weak.toml").write_bytes(weak)
    assert store("policy", "s", "weak.toml", "--by", "ops")[0] == 0
    code, out, _ = store("verify", "s", "--json")
    assert code == 1
    assert not json.loads(out)[0]["passed"]
