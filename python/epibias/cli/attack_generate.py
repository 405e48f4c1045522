"""`epibias attack make …` with a generator: EBI and Topic-FlipRAG."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from epibias.cli import attack_options as shared
from epibias.cli import generator_options as generators
from epibias.cli import options
from epibias.cli.console import guarded, progress_bar
from epibias.errors import InputError

if TYPE_CHECKING:
    from epibias.attacks.ebi_parts import EBIOutcome
    from epibias.generators import Failure

METHOD = typer.Option("pca", help="How the axis is fitted: pca, mean_difference or ridge.")
TEMPERATURE = typer.Option(0.8, help="Of the generator.")
MAX_TOKENS = typer.Option(2048, help="Longest reply, in tokens.")


@guarded
def ebi(
    output: str = shared.OUTPUT,
    data: str = shared.DATA,
    question: list[str] | None = shared.QUESTION,
    base_url: str | None = generators.BASE_URL,
    model: str | None = generators.MODEL,
    api_key_variable: str | None = generators.KEY,
    gguf: str | None = generators.GGUF,
    replies: str | None = generators.REPLIES,
    offline: bool = generators.OFFLINE,
    concurrency: int | None = generators.CONCURRENCY,
    request_seconds: float | None = generators.SECONDS,
    encoder: str = options.ENCODER,
    cache: bool = options.CACHE,
    data_anchors: bool = typer.Option(
        False, "--data-anchors", help="Use the anchors of the data; the generator writes none."
    ),
    n: int = typer.Option(10, "--n", help="Passages a polarity."),
    tolerance: float = typer.Option(0.1, help="Largest distance of PS from the reference's."),
    method: str = METHOD,
    max_requests: int = typer.Option(8, help="Requests a polarity before the rest is given up."),
    per_request: int = typer.Option(5, help="Passages asked for at once."),
    min_words: int = typer.Option(20, help="Shortest passage."),
    max_words: int = typer.Option(200, help="Longest passage."),
    max_similarity: float = typer.Option(0.97, help="Cosine above which it is a near duplicate."),
    temperature: float = TEMPERATURE,
    max_tokens: int = MAX_TOKENS,
    seed: int = shared.SEED,
    own: bool = shared.OWN,
    as_json: bool = shared.JSON,
) -> None:
    """Make the passages of epistemic bias injection: true, one-sided, checked on the axis.

    For the red-team evaluation of an index you own; nothing is posted, and nothing is sent but to
    the generator that you name. With --replies a run that was stopped goes on where it was.
    """
    from epibias.attacks import AdversarialSet
    from epibias.attacks.ebi import ebi_of_many
    from epibias.attacks.ebi_parts import EBIOutcome, EBIQuestion, EBISettings
    from epibias.data_sets import load_questions

    shared.check_before(output, own, replies)
    settings = EBISettings(
        n=n,
        tolerance=tolerance,
        method=method,
        max_requests=max_requests,
        per_request=per_request,
        min_words=min_words,
        max_words=max_words,
        max_similarity=max_similarity,
        temperature=temperature,
        max_tokens=max_tokens,
        seed=seed,
    )
    asked = shared.chosen_questions(load_questions(data), question)
    generator = generators.generator_of(
        base_url, model, api_key_variable, gguf, replies, offline, concurrency, request_seconds
    )
    attacker = shared.loaded_encoder(encoder, cache=cache)
    outcomes: dict[str, EBIOutcome] = {}
    wanted: list[EBIQuestion] = []
    for one in asked:
        if data_anchors and len(one.anchors) < 2:  # as some questions of WIKI-BALANCE
            why = f"the data has {len(one.anchors)} anchors for it"
            outcomes[one.id] = EBIOutcome(AdversarialSet(()), failure=why)
            continue
        given = (one.anchors, one.stances) if data_anchors else (None, None)
        wanted.append(EBIQuestion(one.id, one.text, *given))
    with shared.going_on(replies), progress_bar() as progress:
        task = progress.add_task("passages", total=2 * n * len(wanted))
        found = ebi_of_many(
            wanted,
            generator,
            attacker,
            i_own_this_index=own,
            settings=settings,
            progress=lambda done: progress.advance(task, done),
        )
    outcomes |= {one.id: outcome for one, outcome in zip(wanted, found, strict=True)}
    outcomes = {one.id: outcomes[one.id] for one in asked}
    failures = {name: one.failure for name, one in outcomes.items() if one.failure is not None}
    missing = {
        name: dict(one.missing) for name, one in outcomes.items() if any(one.missing.values())
    }
    by_reason: dict[str, list[str]] = {}
    for name, why in failures.items():
        by_reason.setdefault(why, []).append(name)
    lines = [f"epibias: question {', '.join(names)}: {why}" for why, names in by_reason.items()]
    lines += [
        f"epibias: question {name}: {count} {side} passages short of {n}"
        for name, sides in missing.items()
        for side, count in sides.items()
        if count
    ]
    made = AdversarialSet.joined(one.adversarial for one in outcomes.values())
    shared.write_made(
        made,
        output,
        as_json=as_json,
        more={"failures": failures, "missing": missing, "settings": settings.plain()},
        lines=lines,
        stopped=[one.stopped for one in outcomes.values() if one.stopped is not None],
        replies=replies,
    )


@guarded
def topic_fliprag(
    output: str = shared.OUTPUT,
    data: str = shared.DATA,
    question: list[str] | None = shared.QUESTION,
    polarity: str = shared.POLARITY,
    base_url: str | None = generators.BASE_URL,
    model: str | None = generators.MODEL,
    api_key_variable: str | None = generators.KEY,
    gguf: str | None = generators.GGUF,
    replies: str | None = generators.REPLIES,
    offline: bool = generators.OFFLINE,
    concurrency: int | None = generators.CONCURRENCY,
    request_seconds: float | None = generators.SECONDS,
    encoder: str = options.ENCODER,
    splice: bool = typer.Option(
        False, "--splice", help="No generator: sentences of one-sided texts are spliced in."
    ),
    texts: str | None = shared.TEXTS,
    passages: int = typer.Option(5, help="Passages of the corpus that are edited: the nearest."),
    edits: int = typer.Option(3, help="Edits asked for in a round."),
    rounds: int = typer.Option(3, help="Rounds of edits."),
    min_similarity: float = typer.Option(0.85, help="Least cosine with the original."),
    max_length_change: float = typer.Option(0.3, help="Largest change of length, as a share."),
    length: int = typer.Option(5, help="Words of the trigger."),
    max_evaluations: int = typer.Option(200, help="Triggers that are tried for a passage at most."),
    method: str = METHOD,
    temperature: float = TEMPERATURE,
    max_tokens: int = MAX_TOKENS,
    seed: int = shared.SEED,
    own: bool = shared.OWN,
    as_json: bool = shared.JSON,
) -> None:
    """Make Topic-FlipRAG's passages: existing ones, edited in rounds, a trigger before them.

    For the red-team evaluation of an index you own; nothing is posted, and nothing is sent but to
    the generator that you name. The axis is fitted on the anchors of the data.
    """
    from epibias._dispatch import renamed
    from epibias.attacks import AdversarialSet
    from epibias.attacks.fliprag_editor import Editor, GeneratorEditor, SplicingEditor
    from epibias.attacks.topic_fliprag import FlipSettings
    from epibias.attacks.topic_fliprag import topic_fliprag as make
    from epibias.data_sets import load_questions
    from epibias.encoder import encode_in_batches
    from epibias.polarization.question_axis import fitted_axes
    from epibias.retrieval import CosineIndex

    shared.check_before(output, own, replies)
    sides = shared.sides_of(polarity)
    settings = FlipSettings(
        min_similarity, max_length_change, rounds, length, max_evaluations, seed
    )
    found = load_questions(data)
    asked = shared.chosen_questions(found, question)
    named = (base_url, model, api_key_variable, gguf, replies)
    if splice and (
        offline or any(one is not None for one in (*named, concurrency, request_seconds))
    ):
        raise InputError("--splice", "no option of a generator beside it", "one")
    if texts is not None and not splice:
        raise InputError("--texts", "no such option without --splice", repr(texts))
    generator = None
    if not splice:
        generator = generators.generator_of(*named, offline, concurrency, request_seconds)
    spliced = shared.texts_for(found, texts) if splice else None
    gone = {} if spliced is None else shared.without_texts(asked, sides, spliced)

    def editor_of(question_id: str, text: str, side: str) -> Editor:
        if spliced is not None:
            given = [passage.text for passage in spliced.of(question_id, side)]
            return SplicingEditor(given, n=edits, seed=seed, i_own_this_index=own)
        assert generator is not None  # noqa: S101  (for the type checker; made above)
        return GeneratorEditor(
            generator,
            text,
            side,
            n=edits,
            temperature=temperature,
            max_tokens=max_tokens,
            seed=seed,
            i_own_this_index=own,
        )

    surrogate = shared.loaded_encoder(encoder, cache=False)
    made: list[AdversarialSet] = []
    stopped: dict[str, Failure] = {}  # questions without all of their passages
    with shared.going_on(replies), progress_bar() as progress:
        task = progress.add_task("corpus encoded", total=len(found.corpus) + len(asked))
        done = lambda count: progress.advance(task, count)  # noqa: E731  one use, twice
        rows = encode_in_batches(surrogate, found.corpus.encoded_texts, "passages", done)
        queries = encode_in_batches(surrogate, [one.text for one in asked], "queries", done)
        with renamed(k="--passages"):
            nearest = CosineIndex(rows).search(queries, k=passages).indices
        edited = progress.add_task("passages edited", total=nearest.size * len(sides))
        axes = fitted_axes(asked, surrogate, method)
        for one, picked, axis in zip(asked, nearest, axes, strict=True):
            originals = [found.corpus[int(row)] for row in picked]
            for side in sides:
                if side in gone.get(one.id, ()):
                    continue
                if stopped:
                    stopped.setdefault(one.id, next(iter(stopped.values())))
                    continue
                editor = editor_of(one.id, one.text, side)
                flipped = make(
                    one.id,
                    [one.text],
                    originals,
                    side,
                    editor,
                    surrogate,
                    axis,
                    settings=settings,
                    i_own_this_index=own,
                    progress=lambda count: progress.advance(edited, count),
                )
                if isinstance(editor, GeneratorEditor) and editor.stopped is not None:
                    stopped[one.id] = editor.stopped  # passages it did not edit are no result
                else:
                    made.append(flipped)
    shared.write_made(
        AdversarialSet.joined(made),
        output,
        as_json=as_json,
        more={"without_texts": gone},
        lines=shared.lines_of(gone),
        stopped=list(stopped.values()),
        replies=replies,
    )
