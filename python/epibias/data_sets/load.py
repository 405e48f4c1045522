"""One door to every question set: by name, or from a path."""

from __future__ import annotations

from pathlib import Path

from epibias.data_sets.debate_questions import debate_questions
from epibias.data_sets.question_set import QuestionSet
from epibias.errors import InputError

SHIPPED = ("debates",)


def load_questions(name_or_path: Path | str = "debates") -> QuestionSet:
    """Load a question set.

    Parameters
    ----------
    name_or_path : str or Path
        "debates", the one that is shipped, or a folder of the same layout.

    Returns
    -------
    QuestionSet

    Raises
    ------
    InputError
        A name that is not known, a path that is not there, a file that is not of its layout.

    Examples
    --------
    >>> debates = load_questions("debates")
    >>> debates.questions[0].text, debates.licence
    ('Should countries introduce a universal basic income?', 'Apache-2.0')
    """
    if name_or_path in SHIPPED:
        return debate_questions()
    path = Path(name_or_path)
    if path.is_dir():
        return debate_questions(path, licence="not stated")
    expected = f"a folder, or one of {', '.join(SHIPPED)}"
    raise InputError("name_or_path", expected, repr(str(name_or_path)))
