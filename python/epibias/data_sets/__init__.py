"""The two text sets that come with epibias: debates, and the wiki of a fictional firm.

Both were written by a language model for this project and are for evaluation only; the files are
package data, described in the data card beside them. `debates` and `opswiki` read and check them,
and folders of the same layout.
"""

from epibias.data_sets.debates import DebateTopic, load_debates
from epibias.data_sets.opswiki import (
    GoldenQuery,
    LegitimateUpdate,
    OpsWiki,
    PoisonPage,
    Source,
    load_opswiki,
)

__all__ = [
    "DebateTopic",
    "GoldenQuery",
    "LegitimateUpdate",
    "OpsWiki",
    "PoisonPage",
    "Source",
    "load_debates",
    "load_opswiki",
]
