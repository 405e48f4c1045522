"""What NLI makes of a claim and its evidence: supported, refuted, or neither.

Owns the rule, for whoever checks facts (`fact_reference`). In: the largest probabilities over the
evidence. Out: one of three words.
"""

from __future__ import annotations

SUPPORTS, REFUTES, NOT_ENOUGH_INFO = "SUPPORTS", "REFUTES", "NOT ENOUGH INFO"
VERDICTS = (SUPPORTS, REFUTES, NOT_ENOUGH_INFO)


def verdict_of(entailment: float, contradiction: float, threshold: float = 0.5) -> str:
    """Verdict of a claim from the largest probabilities over its evidence.

    Parameters
    ----------
    entailment, contradiction : float
        In [0, 1].
    threshold : float
        The larger of the two must reach it.

    Returns
    -------
    {"SUPPORTS", "REFUTES", "NOT ENOUGH INFO"}
        Equal probabilities decide nothing.

    References
    ----------
    Thorne et al., FEVER: a Large-scale Dataset for Fact Extraction and VERification,
    arXiv:1803.05355, for the three verdicts.

    Examples
    --------
    >>> verdict_of(0.9, 0.2), verdict_of(0.3, 0.6), verdict_of(0.4, 0.4), verdict_of(0.7, 0.7)
    ('SUPPORTS', 'REFUTES', 'NOT ENOUGH INFO', 'NOT ENOUGH INFO')
    """
    if max(entailment, contradiction) < threshold or entailment == contradiction:
        return NOT_ENOUGH_INFO
    return SUPPORTS if entailment > contradiction else REFUTES
