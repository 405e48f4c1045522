"""Governance of an index that feeds an assistant: versions, authority, golden queries, gate, logs.

Start with `IndexStore`; `docs/index.md` begins with an example. The write path (`changes`,
`versions`, `version_files`, `pointer`) decides what is admitted and with what authority; the read
path (`reader`, `authority`, `topics`) ranks with it; `gate` compares a staged version with the last
trusted one (`drift`, `newcomers`, `signals`) before the pointer moves; `audit` and `investigate`
tell afterwards what happened. Needs pyarrow (extra ``index``).
"""

from epibias.index.answers import Answer, Outcome
from epibias.index.audit import AuditLog
from epibias.index.changes import Addition
from epibias.index.gate_report import GateReport
from epibias.index.policy import Policy
from epibias.index.policy_file import opswiki_policy_bytes, parse_policy, read_policy
from epibias.index.reader import IndexReader
from epibias.index.store import IndexStore

__all__ = [
    "Addition",
    "Answer",
    "AuditLog",
    "GateReport",
    "IndexReader",
    "IndexStore",
    "Outcome",
    "Policy",
    "opswiki_policy_bytes",
    "parse_policy",
    "read_policy",
]
