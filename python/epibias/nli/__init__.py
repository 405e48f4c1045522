"""Natural language inference behind one protocol: entailment, neutral, contradiction.

`base` has the protocol, `fixed` a stand-in without a model.
"""

from epibias.nli.base import CONTRADICTION, ENTAILMENT, LABELS, NEUTRAL, NLI
from epibias.nli.fixed import FixedNLI

__all__ = ["CONTRADICTION", "ENTAILMENT", "LABELS", "NEUTRAL", "NLI", "FixedNLI"]
