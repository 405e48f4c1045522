"""The main job: inject, retrieve, defend, measure and report on the shipped debates.

Owns the order of the steps and what the user is told. In: an output folder and options. Out: the
run folder, finished. Texts are encoded once (and cached on disk), then each topic is measured
and kept before the next begins.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from epibias._validate import extra
from epibias.corpus import Corpus
from epibias.data_sets import DebateTopic, load_debates
from epibias.encoder import Encoder
from epibias.errors import InputError
from epibias.experiment import axes as experiment_axes
from epibias.experiment import inputs as experiment_inputs
from epibias.experiment import manifest, raw, report, tables, trec
from epibias.experiment.listener import Listener, Silent
from epibias.experiment.measure import measure_question
from epibias.experiment.plan import Attack, Plan, check_topics, demo_plan
from epibias.experiment.run_folder import RunFolder


@dataclass(frozen=True)
class DemoResult:
    """A finished run.

    Parameters
    ----------
    folder : Path
        The run folder.
    state : {"new", "resumed", "complete"}
        What `run_demo` found in it.
    results : Results
        All means with their intervals.
    rows : list of rows
        The raw rows.
    plan : Plan
        What was run.
    notes : list of str
        What could not be measured, and how often; empty when all was.
    seconds : float
        Time this call took.
    """

    folder: Path
    state: str
    results: tables.Results = field(repr=False)
    rows: list[raw.Row] = field(repr=False)  # thousands
    plan: Plan = field(repr=False)
    notes: list[str]
    seconds: float

    @property
    def report(self) -> Path:
        """Path of report.html."""
        return self.folder / "report.html"


def run_demo(
    out: Path,
    encoder: Encoder,
    encoder_facts: dict[str, Any],
    *,
    overwrite: bool = False,
    topics: Sequence[str] | None = None,
    seed: int = 0,
    listener: Listener | None = None,
) -> DemoResult:
    """Run, resume or re-render the demo.

    Parameters
    ----------
    out : Path
        Run folder. A finished run of the same settings is only rendered again; an unfinished one
        is resumed.
    encoder : Encoder
        Encodes every text once.
    encoder_facts : dict
        Identity of the encoder for the manifest (`identity`), and a sentence about it for people
        (`note`); the identity must agree when a run is resumed.
    overwrite : bool
        Start anew, whatever is in the folder.
    topics : sequence of str, optional
        Only these topics; the clean corpus then is theirs alone. All when absent.
    seed : int
        For the permutation test and the bootstrap.
    listener : Listener, optional
        Takes messages and progress.

    Raises
    ------
    InputError
        If the folder holds something else, or a run under other settings.
    """
    started = time.perf_counter()
    listener = listener or Silent()
    # Before the first minute of work, not after it.
    for package, name in (("pyarrow", "parquet"), ("jinja2", "report"), ("plotly", "report")):
        extra("epibias demo", package, name)
    debates = load_debates()
    wanted = check_topics([t.topic for t in debates], None if topics is None else list(topics))
    chosen = [topic for topic in debates if topic.topic in wanted]
    plan = demo_plan(seed=seed)
    n_benign = sum(len(topic.benign) for topic in chosen)
    if n_benign < plan.k * plan.pool_factor:
        expected = f"topics with {plan.k * plan.pool_factor} benign passages or more, to retrieve"
        raise InputError("topics", expected, f"{n_benign} in {', '.join(wanted)}")
    settings = {
        "code": manifest.code_identity(),
        "encoder": encoder_facts["identity"],
        "plan": plan.settings(),
        "topics": wanted,
        "data_sha256": experiment_inputs.data_sha256(chosen),
    }
    folder = RunFolder(out)
    with folder.locked():
        state = folder.open(settings, manifest.environment(), overwrite=overwrite)
        if state == "complete":
            listener.say(f"{out} holds this run, finished: tables and report are rendered again.")
            rows = folder.rows()
        else:
            rows = _measure(folder, plan, chosen, encoder, listener, state)
            folder.note(encoder_note=encoder_facts["note"])
        result = _render(folder, plan, chosen, rows, state, started)
        if state != "complete":
            folder.complete(len(rows))
    return result


def _measure(
    folder: RunFolder,
    plan: Plan,
    chosen: list[DebateTopic],
    encoder: Encoder,
    listener: Listener,
    state: str,
) -> list[raw.Row]:
    names = [topic.topic for topic in chosen]
    done = folder.topics_done(names)
    if state == "resumed":
        listener.say(f"Resuming: {len(done)} of {len(names)} topics were measured before.")
    if len(done) < len(names) or "validity" not in folder.manifest():
        begun = time.perf_counter()
        encoded = _encode(chosen, encoder, listener)
        axes = experiment_axes.fit_axes(encoded, plan)
        folder.note(
            validity=experiment_axes.validity_rows(encoded, axes),
            validity_by_chance=experiment_axes.validity_by_chance(encoded, plan),
            encoding_seconds=round(time.perf_counter() - begun, 2),
        )
        listener.start("measuring topics", len(names))
        listener.advance(len(done))
        for row, name in enumerate(names):
            if name not in done:
                folder.write_part(name, measure_question(encoded, axes, plan, row))
                listener.advance(1)
    return folder.join(names)


def _encode(
    chosen: Sequence[DebateTopic], encoder: Encoder, listener: Listener
) -> experiment_inputs.ExperimentInputs:
    questions = experiment_inputs.questions_of(chosen)
    corpus = Corpus([passage for topic in chosen for passage in topic.benign])
    injected = experiment_inputs.own_passages(questions)
    relevant = {topic.query_id: tuple(one.id for one in topic.benign) for topic in chosen}
    listener.start("encoding texts", experiment_inputs.n_texts(questions, corpus, injected))
    name = str(getattr(encoder, "identity", {}).get("name", ""))
    clean = experiment_inputs.encode_corpus(
        "debates", corpus, encoder, encoder_name=name, progress=listener.advance
    )
    return experiment_inputs.encode_questions(
        clean, questions, relevant, injected, encoder, progress=listener.advance
    )


def _render(
    folder: RunFolder,
    plan: Plan,
    chosen: list[DebateTopic],
    rows: list[raw.Row],
    state: str,
    started: float,
) -> DemoResult:
    """Write everything that follows from the raw rows: TREC files, tables, report."""
    relevant = {topic.query_id: [p.id for p in topic.benign] for topic in chosen}
    trec.write_trec(folder.path / "trec", rows, plan, relevant)
    results = tables.aggregate(rows, plan)
    tables.write_tables(folder.path / "tables", results, rows, plan)
    notes = problems(rows, plan)
    report.write_report(
        folder.path / "report.html", folder.manifest(), rows, results, plan, chosen, notes
    )
    seconds = time.perf_counter() - started
    return DemoResult(folder.path, state, results, rows, plan, notes, seconds)


def problems(rows: list[raw.Row], plan: Plan) -> list[str]:
    """Say what could not be measured: failed rows, topics with too few decoys."""
    notes = []
    failed = [row for row in rows if row["status"] == "failed"]
    if failed:
        listed = "; ".join(
            f"{row['topic']}, {row['defense']}, {Attack.of_row(row).key}: {row['message']}"
            for row in failed[:5]
        )
        more = f" (and {len(failed) - 5} more)" if len(failed) > 5 else ""
        notes.append(f"{len(failed)} of {len(rows)} cells failed: {listed}{more}")
    first = [
        row
        for row in rows
        if row["axis"] == plan.axis_methods[0] and row["defense"] == plan.defenses[0].key
    ]
    for attack in plan.attacks:
        if attack.kind != "decoys":
            continue
        counts = {row["topic"]: row["injections"] for row in first if Attack.of_row(row) == attack}
        fewer = {topic: count for topic, count in counts.items() if count < attack.injections}
        if fewer:
            none = sum(count == 0 for count in fewer.values())
            listed = ", ".join(f"{topic} {count}" for topic, count in fewer.items() if count)
            notes.append(
                f"Decoys, {attack.polarity}: {len(fewer)} of {len(counts)} topics have fewer than "
                f"{attack.injections} adversarial passages below the {plan.k}th best benign one. "
                f"{none} have none and are left out of the means; the others: {listed or 'none'}."
            )
    return notes
