"""Text to embeddings: the protocol, and the encoder that loads any SentenceTransformer.

`model` holds every call of torch, `prompts` who wants which prompt, `cache` the embeddings on disk.
"""

from epibias.encoder.sentence_transformer import Encoder, SentenceTransformerEncoder

__all__ = ["Encoder", "SentenceTransformerEncoder"]
