"""Exact cosine search: the index, what it keeps beside the embeddings, and which scan runs when."""

from epibias.retrieval.index import Candidates, CosineIndex
from epibias.retrieval.scans import SCANS

__all__ = ["SCANS", "Candidates", "CosineIndex"]
