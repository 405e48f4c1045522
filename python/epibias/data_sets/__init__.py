"""Text sets: the two that come with epibias, and questions from public sets or files of your own.

`debates` and the wiki of a fictional firm, `opswiki`, are package data, described in the data card
beside them: written by a language model for this project, for evaluation only. `load_questions`
gives any set as a `QuestionSet`.
"""

from epibias.data_sets.debates import DebateTopic, load_debates
from epibias.data_sets.labelled_anchors import labelled_anchors
from epibias.data_sets.load import load_questions
from epibias.data_sets.opswiki import (
    GoldenQuery,
    LegitimateUpdate,
    OpsWiki,
    PoisonPage,
    Source,
    load_opswiki,
)
from epibias.data_sets.own_jsonl import write_questions
from epibias.data_sets.question_set import Question, QuestionSet

__all__ = [
    "DebateTopic",
    "GoldenQuery",
    "LegitimateUpdate",
    "OpsWiki",
    "PoisonPage",
    "Question",
    "QuestionSet",
    "Source",
    "labelled_anchors",
    "load_debates",
    "load_opswiki",
    "load_questions",
    "write_questions",
]
