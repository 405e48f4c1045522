"""Passages, queries and judgements: in memory (`passages`, `qrels`) and in files.

`readers` takes JSON lines and BEIR folders, `parquet` Parquet; `columns` checks every row.
"""

from epibias.corpus.passages import METADATA_FIELDS, Corpus, Passage, Queries
from epibias.corpus.qrels import Qrels

__all__ = ["METADATA_FIELDS", "Corpus", "Passage", "Qrels", "Queries"]
