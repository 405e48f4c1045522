"""`epibias attack make …` without a generator: verbatim, PoisonedRAG, trigger passages."""

from __future__ import annotations

import typer

from epibias.cli import attack_options as shared
from epibias.cli import options
from epibias.cli.console import guarded, progress_bar

LENGTH = typer.Option(5, help="Words of a trigger.")
EVALUATIONS = typer.Option(400, help="Triggers that are tried for a question at most.")


@guarded
def verbatim(
    output: str = shared.OUTPUT,
    data: str = shared.DATA,
    question: list[str] | None = shared.QUESTION,
    n: int = typer.Option(1, "--n", help="Passages a question."),
    own: bool = shared.OWN,
    as_json: bool = shared.JSON,
) -> None:
    """Make passages that are the question itself, word for word.

    For the red-team evaluation of an index you own; nothing is posted.
    """
    from epibias.attacks import AdversarialSet
    from epibias.attacks.question_copies import verbatim as make
    from epibias.data_sets import load_questions

    shared.check_before(output, own)
    asked = shared.chosen_questions(load_questions(data), question)
    made = [make(one.id, one.text, n=n, i_own_this_index=own) for one in asked]
    shared.write_made(AdversarialSet.joined(made), output, as_json=as_json)


@guarded
def poisonedrag(
    output: str = shared.OUTPUT,
    data: str = shared.DATA,
    question: list[str] | None = shared.QUESTION,
    polarity: str = shared.POLARITY,
    texts: str | None = shared.TEXTS,
    own: bool = shared.OWN,
    as_json: bool = shared.JSON,
) -> None:
    """Make PoisonedRAG's black-box passages: the question, then an adversarial text.

    For the red-team evaluation of an index you own; nothing is posted.
    """
    from epibias.attacks import AdversarialSet
    from epibias.attacks.question_copies import poisonedrag as make
    from epibias.data_sets import load_questions

    shared.check_before(output, own)
    sides = shared.sides_of(polarity)
    found = load_questions(data)
    given = shared.texts_for(found, texts)
    asked = shared.chosen_questions(found, question)
    gone = shared.without_texts(asked, sides, given)
    made = []
    for one in asked:
        for side in sides:
            passages = given.of(one.id, side)
            if passages:
                made.append(make(one.id, one.text, passages, side, i_own_this_index=own))
    shared.write_made(
        AdversarialSet.joined(made),
        output,
        as_json=as_json,
        more={"without_texts": gone},
        lines=shared.lines_of(gone),
    )


@guarded
def trigger(
    output: str = shared.OUTPUT,
    data: str = shared.DATA,
    question: list[str] | None = shared.QUESTION,
    polarity: str = shared.POLARITY,
    texts: str | None = shared.TEXTS,
    encoder: str = options.ENCODER,
    mode: str = typer.Option("badrag", help="Objective: badrag or agentpoison."),
    contrast: float = typer.Option(0.5, help="Weight of the questions it is not to answer."),
    length: int = LENGTH,
    max_evaluations: int = EVALUATIONS,
    search_texts: int = typer.Option(1, help="Texts that the search looks at."),
    seed: int = shared.SEED,
    own: bool = shared.OWN,
    as_json: bool = shared.JSON,
) -> None:
    """Make trigger passages: words found on an encoder of one's own, then an adversarial text.

    For the red-team evaluation of an index you own; nothing is posted. The search needs no
    gradients and stops after --max-evaluations; the document of --json has the objective of every
    one.
    """
    from epibias.attacks import AdversarialSet
    from epibias.attacks.token_search import SearchSettings
    from epibias.attacks.trigger import trigger as make
    from epibias.data_sets import load_questions

    shared.check_before(output, own)
    sides = shared.sides_of(polarity)
    settings = SearchSettings(length=length, max_evaluations=max_evaluations, seed=seed)
    found = load_questions(data)
    given = shared.texts_for(found, texts)
    asked = shared.chosen_questions(found, question)
    gone = shared.without_texts(asked, sides, given)
    # What is tried once is not worth a place on disk.
    attacker = shared.loaded_encoder(encoder, cache=False)
    made, searches = [], []
    with progress_bar() as progress:
        task = progress.add_task("triggers tried", total=len(asked) * len(sides) * max_evaluations)
        for number, (one, side) in enumerate((one, side) for one in asked for side in sides):
            passages = given.of(one.id, side)
            if passages:
                outcome = make(
                    one.id,
                    [one.text],
                    passages,
                    side,
                    attacker,
                    other_questions=[other.text for other in found.questions if other != one],
                    contrast=contrast,
                    mode=mode,
                    n_search_texts=search_texts,
                    settings=settings,
                    i_own_this_index=own,
                    progress=lambda done: progress.advance(task, done),
                )
                made.append(outcome.adversarial)
                searches.append(
                    {
                        "question_id": one.id,
                        "polarity": side,
                        "trigger": outcome.trigger,
                        "objective": outcome.search.objective,
                        "evaluations": outcome.search.evaluations.tolist(),
                    }
                )
            progress.update(task, completed=(number + 1) * max_evaluations)
    shared.write_made(
        AdversarialSet.joined(made),
        output,
        as_json=as_json,
        more={"searches": searches, "without_texts": gone},
        lines=shared.lines_of(gone),
    )
