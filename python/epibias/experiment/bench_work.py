"""One question of an experiment, from its candidates to its answers, and what is kept of it.

In: a group of encoded questions, their arm and its plan. Out: the parts of each question in the run
folder. A question in which prompts found no server is kept with a mark, and measured again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from epibias.attacks.facts import FactTable
from epibias.corpus import Passage
from epibias.encoder import Encoder
from epibias.experiment import axes as experiment_axes
from epibias.experiment.answers import ANSWERS, answer_question
from epibias.experiment.inputs import ExperimentInputs
from epibias.experiment.measure import measure_question
from epibias.experiment.passage_rows import (
    PASSAGES,
    VALIDITY,
    judge_passages,
    judged_questions,
    passage_rows,
    passages_of_a_question,
)
from epibias.experiment.plan import Plan
from epibias.experiment.raw import Row, Table
from epibias.experiment.run_folder import RunFolder

if TYPE_CHECKING:
    from epibias.experiment.bench import Arm, Experiment


class Work:
    """What is done for every question of a group; only `question` is called by threads."""

    def __init__(
        self,
        experiment: Experiment,
        arm: Arm,
        plan: Plan,
        inputs: ExperimentInputs,
        scorer: Encoder,
        facts: Callable[[Sequence[Passage]], FactTable] | None,
    ) -> None:
        self.experiment, self.arm, self.plan = experiment, arm, plan
        self.inputs, self.scorer, self.facts = inputs, scorer, facts
        n_questions = len(experiment.loaded(arm.dataset).chosen)
        self.axes = experiment_axes.fit_axes(inputs, plan)
        self.validity = experiment_axes.validity_rows(inputs, self.axes)
        config = experiment.config
        self.judge = None
        self.judged: frozenset[int] = frozenset()
        if config.judge is not None:
            self.judge = experiment.generators[config.judge.generator]
            self.judged = judged_questions(config.judge, n_questions, config.seed)

    def question(self, folder: RunFolder, place: int, row: int) -> None:
        """Measure one question, ask for its answers, keep both."""
        with self.experiment.watch.counting() as unanswered:
            found, others, records = self._found(place, row)
        folder.write_part(self.arm.part(row), found, others, records, unanswered=unanswered.n)

    def _found(
        self, place: int, row: int
    ) -> tuple[list[Row], dict[Table, list[Row]], list[dict[str, Any]]]:
        config = self.experiment.config
        rows = measure_question(self.inputs, self.axes, self.plan, place)
        verdicts: dict[str, int | None] = {}
        if config.judge is not None and self.judge is not None and row in self.judged:
            n_passages = passages_of_a_question(config.judge, len(self.judged))
            verdicts = judge_passages(self.inputs, place, self.judge, n_passages, config.seed)
        passages = passage_rows(
            self.inputs, self.axes, self.plan, place, rows, verdicts, self.facts
        )
        asked = self.experiment.asked
        records: list[dict[str, Any]] = []
        answers: list[dict[str, Any]] = []
        if asked:
            records, answers = answer_question(
                self.inputs, self.axes, self.plan, place, rows, asked, config.answers, self.scorer
            )
        cell = {"dataset": self.inputs.clean.name, "encoder": self.inputs.clean.encoder,
                "k": self.plan.k, "query_id": self.inputs.questions[place].id}  # fmt: skip
        n_axes = len(self.plan.axis_methods)
        validity = self.validity[place * n_axes : (place + 1) * n_axes]
        others: dict[Table, list[Row]] = {
            PASSAGES: passages,
            ANSWERS: answers,
            VALIDITY: [{**cell, **one} for one in validity],
        }
        return rows, others, records
