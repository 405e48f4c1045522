"""Writers of a governed index that are killed with SIGKILL, and what must hold afterwards.

`run_kills(folder, n)` forks a writer n times: it stages, promotes, rolls back and appends to both
logs, and says after each step what was acknowledged. At a random moment it is killed; another
process then opens the store and checks it. Run as a script it does so in a process that has no
threads yet, which is what makes forking safe; it prints one JSON object.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.compute  # before the forks, each of which would import it again
import pyarrow.parquet  # noqa: F401

from epibias.index import IndexStore
from epibias.index.integrity import check_store
from fake_encoder import FakeEncoder
from index_stores import first_pages, make_store, page

STEPS = ("stage", "promote", "rollback", "search")


def write_until_killed(folder, acknowledge, seed):
    """Change the store for ever; after each step say what is now there."""
    rng = np.random.default_rng(seed)
    store = IndexStore(folder, FakeEncoder())
    number = seed * 10_000
    while True:
        number += 1
        text = f"note {number} about plants {rng.integers(1e9)}"
        version = store.stage([page(f"n{number}", text)], by="ops", reason="r")
        acknowledge("version", version.id)
        outcome = store.promote(version.id, by="ops", reason="r")
        if outcome.held:
            acknowledge("held", version.id)
            continue
        acknowledge("promotion", outcome.promotion.number)
        acknowledge("answer", store.search("lunch plants").line)
        if rng.random() < 0.5:
            acknowledge("promotion", store.rollback(by="ops", reason="r").number)


def problems_after(folder, acknowledged):
    """What is missing or torn, in words."""
    try:
        store = IndexStore(folder, FakeEncoder())
        store.reader(everything=True).similar(FakeEncoder().encode(["plants"]), 5)
        with store.versions.lock():
            store.versions.recover()
        problems = list(check_store(store).problems)
        versions = {one.id: one.state for one in store.catalogue.versions()}
        done = {one.number for one in store.catalogue.promotions() if one.state == "done"}
        answers = {line.number for line in store.retrievals.lines()}
        known = {
            "version": versions.keys(),
            "held": {name for name, state in versions.items() if state == "held"},
            "promotion": done,
            "answer": answers,
        }
        lost = [(kind, what) for kind, what in acknowledged if what not in known[kind]]
        problems += [f"acknowledged {kind} {what} is lost" for kind, what in lost]
        last = max((what for kind, what in acknowledged if kind == "promotion"), default=0)
        if store.current.promotion < last:
            problems.append(f"the pointer went back before promotion {last}")
    except Exception as error:
        return [f"{type(error).__name__}: {error}"]
    return problems


def run_kills(folder, n, seed=0):
    """Kill `n` writers; the number of acknowledged steps, and all problems."""
    rng = np.random.default_rng(seed)
    problems, steps = [], 0
    for kill in range(n):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)

            def acknowledge(*what, pipe=writing):
                os.write(pipe, json.dumps(what).encode() + b"\n")

            try:
                write_until_killed(folder, acknowledge, kill + 1)
            finally:
                os._exit(1)
        os.close(writing)
        with os.fdopen(reading, "rb") as acks:
            first = acks.readline()  # imports and opening are over: now any moment will do
            time.sleep(float(rng.uniform(0, 0.25)))
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            lines = [first, *acks.read().splitlines(keepends=True)]
        if not (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL and first):
            problems.append(f"kill {kill}: the writer ended by itself, status {status}")
            continue
        acknowledged = [tuple(json.loads(line)) for line in lines if line.endswith(b"\n")]
        steps += len(acknowledged)
        problems += [
            f"kill {kill}: {one}" for one in in_a_child(problems_after, folder, acknowledged)
        ]
    return {"kills": n, "acknowledged": steps, "problems": problems, "passed": not problems}


def in_a_child(function, *arguments):
    """Call a function in a fork, so that this process stays without threads."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            os.write(writing, json.dumps(function(*arguments)).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as result:
        content = result.read()
    _, status = os.waitpid(child, 0)
    return json.loads(content) if content else [f"the check itself died, status {status}"]


def make(folder):
    """Make the store that is written to."""
    make_store(folder, first_pages(), golden=True)
    return []


def main(folder, n):
    """Make a store and kill its writers."""
    in_a_child(make, folder)
    result = run_kills(folder, int(n))
    print(json.dumps(result, indent=2))
    return 0 if result["passed"] else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
