"""`epibias attack properties | facts | import`: sets are checked, and ready-made ones read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from epibias.cli import attack_options as shared
from epibias.cli import nli_options as judges
from epibias.cli import options
from epibias.cli.console import (
    check_kept,
    check_output,
    guarded,
    json_text,
    progress_bar,
    show_table,
    write_output,
)
from epibias.errors import InputError

if TYPE_CHECKING:
    from epibias.attacks import AdversarialSet
    from epibias.attacks.facts import FactTable
    from epibias.metrics.intervals import Interval

SETS: Any = typer.Argument(None, help="Adversarial sets (JSON lines), or ready-made CSV.")
OWN_PASSAGES: Any = typer.Option(
    False, "--ready-made", help="Also the adversarial passages that come with the data."
)
DOCUMENT: Any = typer.Option(
    None, "--output", "-o", help="File for the whole document, every passage in it (JSON)."
)
RESAMPLES: Any = typer.Option(2000, help="Of the bootstrap over questions.")
COLUMN: Any = typer.Option(
    None, help="OURS=THEIRS: which column stands for text, question_id, polarity, attack, ..."
)
VALUE: Any = typer.Option(
    None, help="COLUMN:THEIRS=OURS: what a value of a label means, as polarity:PRO=positive."
)
DEFAULT: Any = typer.Option(
    None, help="COLUMN=VALUE: a label that the file does not have, as attack=topic-fliprag."
)
PAPER = (
    "95 % intervals: bootstrap over questions. The paper's Table II, WIKI-BALANCE, other encoders "
    "and passages: both 87.5 % (negative) and 86.0 % (positive)"
)


@guarded
def properties(
    sets: list[str] | None = SETS,
    data: str = shared.DATA,
    ready_made: bool = OWN_PASSAGES,
    encoder: str = options.ENCODER,
    ps_encoder: str | None = typer.Option(
        None, help="Encoder of the scores.", show_default="that of the index"
    ),
    method: str = typer.Option("pca", help="How the axes are fitted on the anchors of the data."),
    k: int = typer.Option(5, help="Passages of the clean selection."),
    cache: bool = options.CACHE,
    resamples: int = RESAMPLES,
    seed: int = shared.SEED,
    output: str | None = DOCUMENT,
    as_json: bool = shared.JSON,
) -> None:
    """Check which adversarial passages are relevant, one-sided, both or neither (Table II).

    Relevant: more similar to the question than every benign passage of the data. One-sided: PS
    beyond the mean PS of the clean selection, to the intended side.
    """
    from epibias import _validate
    from epibias.attacks.properties import CATEGORIES, n_texts, property_check
    from epibias.data_sets import load_questions
    from epibias.polarization import METHODS

    if output is not None:
        check_output(output, "--output")
    _validate.choice("method", method, METHODS)
    _validate.integer("resamples", resamples, low=1)
    found = load_questions(data)
    given = shared.sets_of(found, sets, ready_made)
    index_encoder = shared.loaded_encoder(encoder, cache=cache)
    other = None if ps_encoder is None else shared.loaded_encoder(ps_encoder, cache=cache)
    with progress_bar() as progress:
        total = n_texts(given, found, k=k, two=other is not None)
        task = progress.add_task("encoding", total=total)
        table = property_check(
            given,
            found,
            index_encoder,
            ps_encoder=other,
            method=method,
            k=k,
            n_resamples=resamples,
            seed=seed,
            progress=lambda done: progress.advance(task, done),
        )
    settings = {"data": data, "encoder": encoder, "ps_encoder": ps_encoder or encoder}
    document = {"settings": {**settings, "method": method, "k": k, "seed": seed}, **table.plain()}
    _write(output, document)
    if as_json:
        write_output("-", json_text(document))
        return
    rows = [
        (row.attack, row.polarity, row.n_passages, *(_share(row.shares[c]) for c in CATEGORIES))
        for row in table.rows
    ]
    show_table("Properties", ("attack", "polarity", "passages", *CATEGORIES), rows, PAPER)


@guarded
def facts(
    sets: list[str] | None = SETS,
    data: str = shared.DATA,
    ready_made: bool = OWN_PASSAGES,
    reference: str | None = typer.Option(
        None,
        help="Corpus of what counts as known (JSON lines).",
        show_default="the benign passages of the data",
    ),
    nli: str | None = judges.NLI_MODEL,
    nli_tokenizer: str | None = judges.TOKENIZER,
    nli_labels: str | None = judges.LABELS,
    judgements: str | None = judges.JUDGEMENTS,
    encoder: str = options.ENCODER,
    cache: bool = options.CACHE,
    n_evidence: int = typer.Option(3, help="Sentences of the reference a claim."),
    min_similarity: float = typer.Option(0.5, help="Cosine below which there is no evidence."),
    threshold: float = typer.Option(0.5, help="Probability that a verdict needs."),
    unit: str = typer.Option("sentence", help="What is one piece of evidence: sentence, passage."),
    benign: bool = typer.Option(True, help="Also check the benign passages, to compare with."),
    resamples: int = RESAMPLES,
    seed: int = shared.SEED,
    output: str | None = DOCUMENT,
    as_json: bool = shared.JSON,
) -> None:
    """Check the sentences of adversarial passages against a reference: supported or refuted.

    The document of --output has every claim with its verdict and evidence.
    """
    from epibias.attacks.facts import check_facts, check_options, claims_of
    from epibias.corpus import Corpus
    from epibias.data_sets import load_questions
    from epibias.nli.fact_reference import FactReference, units_of

    if output is not None:
        check_output(output, "--output")
    check_kept(judgements, output, "--judgements")
    check_options(n_evidence, min_similarity, threshold, resamples)
    found = load_questions(data)
    given = shared.sets_of(found, sets, ready_made)
    judge = judges.nli_of(nli, nli_tokenizer, nli_labels, judgements)
    corpus = found.corpus if reference is None else Corpus.from_jsonl(reference)
    finder = shared.loaded_encoder(encoder, cache=cache)
    groups: dict[tuple[str, str], tuple[list[Any], list[str]]] = {}
    for one in given.passages:
        passages, names = groups.setdefault((one.attack, one.polarity), ([], []))
        passages.append(one.passage)
        names.append(one.question_id)
    if benign:
        groups["benign", ""] = list(found.corpus), list(found.corpus.ids)
    tables: dict[tuple[str, str], FactTable] = {}
    with progress_bar() as progress:
        task = progress.add_task("encoding the reference", total=len(units_of(corpus, unit)))
        known = FactReference.build(
            corpus, finder, unit=unit, progress=lambda done: progress.advance(task, done)
        )
        total = sum(len(claims_of(passages)) for passages, _ in groups.values())
        judged = progress.add_task("judging claims", total=total)
        for key, (passages, names) in groups.items():
            tables[key] = check_facts(
                passages,
                known,
                judge,
                groups=names,
                n_evidence=n_evidence,
                min_similarity=min_similarity,
                threshold=threshold,
                n_resamples=resamples,
                seed=seed,
                progress=lambda done: progress.advance(judged, done),
            )
    settings = {
        "data": data,
        "reference": reference or data,
        "encoder": encoder,
        "nli": dict(judge.identity),
        "n_evidence": n_evidence,
        "min_similarity": min_similarity,
        "threshold": threshold,
        "unit": unit,
        "seed": seed,
    }

    def documented(*, with_claims: bool) -> dict[str, Any]:
        rows = [
            {"attack": attack, "polarity": side or None, **table.plain(with_claims=with_claims)}
            for (attack, side), table in tables.items()
        ]
        return {"settings": settings, "rows": rows}

    _write(output, documented(with_claims=True))
    if as_json:
        write_output("-", json_text(documented(with_claims=False)))
        return
    rows = [
        (attack, side, len(table.claims), _share(table.not_enough), _share(table.support))
        for (attack, side), table in tables.items()
    ]
    caption = (
        f"95 % intervals: bootstrap over questions{', of benign over passages' * benign}. "
        "The paper, with WikiCheck: not enough info .69 (positive), .68 (negative), .71 (benign); "
        "support .73, .79, .63"
    )
    columns = ("attack", "polarity", "claims", "not enough info", "supports / verifiable")
    show_table("Facts", columns, rows, caption)


@guarded
def read_ready_made(
    file: str = typer.Argument(help="A released set: CSV, or JSON lines."),
    output: str = shared.OUTPUT,
    column: list[str] | None = COLUMN,
    value: list[str] | None = VALUE,
    default: list[str] | None = DEFAULT,
    as_json: bool = shared.JSON,
) -> None:
    """Read a released set of adversarial passages and write it as one of ours.

    Nothing is made: the passages are there already.
    """
    from epibias._dispatch import renamed
    from epibias.attacks import AdversarialSet

    check_output(output, "--output")
    columns = dict(_pair("--column", one) for one in column or ())
    defaults = dict(_pair("--default", one) for one in default or ())
    values: dict[str, dict[str, str]] = {}
    for one in value or ():
        name, _, rest = one.partition(":")
        if not rest:
            raise InputError("--value", "COLUMN:THEIRS=OURS", repr(one))
        theirs, ours = _pair("--value", rest)
        values.setdefault(name, {})[theirs] = ours
    with renamed(columns="--column", values="--value", defaults="--default"):
        made: AdversarialSet = AdversarialSet.read(
            file, columns=columns, values=values, defaults=defaults
        )
    shared.write_made(made, output, as_json=as_json)


def _pair(option: str, text: str) -> tuple[str, str]:
    name, mark, rest = text.partition("=")
    if not (name and mark and rest):
        raise InputError(option, "NAME=VALUE", repr(text))
    return name, rest


def _write(path: str | None, document: dict[str, Any]) -> None:
    if path is not None:
        write_output(path, json_text(document))


def _share(one: Interval) -> str:
    if one.mean != one.mean:  # nothing to divide by
        return "-"
    ends = "" if one.low != one.low else f" [{100 * one.low:.1f}, {100 * one.high:.1f}]"
    return f"{100 * one.mean:.1f} %{ends}"
