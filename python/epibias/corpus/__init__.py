"""Passages, queries and judgements: in memory (`passages`, `queries`, `qrels`) and in files.

`readers` takes JSON lines and judgements, `beir` folders that hold all three, `parquet` Parquet;
`columns` checks every row, `keys` gives queries the numbers that key their permutation tests.
"""

from epibias.corpus.beir import BeirData
from epibias.corpus.keys import query_keys
from epibias.corpus.passages import METADATA_FIELDS, Corpus, Passage
from epibias.corpus.qrels import Qrels
from epibias.corpus.queries import Queries

__all__ = ["METADATA_FIELDS", "BeirData", "Corpus", "Passage", "Qrels", "Queries", "query_keys"]
