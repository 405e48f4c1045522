"""Text to embeddings: the protocol, and the encoder that loads any SentenceTransformer.

`model` holds every call of torch, `prompts` who wants which prompt, `cache` the embeddings on disk,
`batches` the way of many texts through any encoder, `progress` the bar.
"""

from epibias.encoder.batches import encode_in_batches
from epibias.encoder.model import PACKAGED_MODEL
from epibias.encoder.sentence_transformer import Encoder, SentenceTransformerEncoder

__all__ = ["PACKAGED_MODEL", "Encoder", "SentenceTransformerEncoder", "encode_in_batches"]
