"""Tiny NLI models for tests: an ONNX file and a folder of transformers, made by hand.

The ONNX model gives each token of a vocabulary three numbers and adds them up over a pair, so that
every logit can be worked out on paper.
"""

from __future__ import annotations

import json

import numpy as np

WORDS = ("[PAD]", "[CLS]", "[SEP]", "[UNK]", "yes", "no", "maybe", "rain")
#            entailment, neutral, contradiction
WEIGHTS = {"yes": (2.0, 0.0, 0.0), "no": (0.0, 0.0, 3.0), "maybe": (0.0, 1.0, 0.0)}


def tokenizer(folder, truncation=None):
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    made = Tokenizer(models.WordLevel({w: n for n, w in enumerate(WORDS)}, unk_token=WORDS[3]))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 1), ("[SEP]", 2)],
    )
    if truncation:
        made.enable_truncation(truncation)
    path = folder / "tokenizer.json"
    made.save(str(path))
    return path


def onnx_model(folder, length=None, inputs=("input_ids", "attention_mask", "token_type_ids")):
    """Logits = sum over tokens of mask · table[id] · (1 + type); unmasked padding would count."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    table = np.zeros((len(WORDS), 3), dtype=np.float32)
    table[0] = 100.0  # a padded token that is not masked cannot be missed
    for word, row in WEIGHTS.items():
        table[WORDS.index(word)] = row
    shape = ["batch", length or "length"]
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["rows"], axis=0),
        helper.make_node("Cast", [inputs[1]], ["mask"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["mask", "last"], ["mask3"]),
        helper.make_node("Mul", ["rows", "mask3"], ["masked"]),
    ]
    last = "masked"
    if "token_type_ids" in inputs:
        nodes += [
            helper.make_node("Cast", ["token_type_ids"], ["types"], to=TensorProto.FLOAT),
            helper.make_node("Add", ["types", "one"], ["factors"]),
            helper.make_node("Unsqueeze", ["factors", "last"], ["factors3"]),
            helper.make_node("Mul", ["masked", "factors3"], ["weighed"]),
        ]
        last = "weighed"
    nodes.append(helper.make_node("ReduceSum", [last, "second"], ["logits"], keepdims=0))
    graph = helper.make_graph(
        nodes,
        "nli",
        [helper.make_tensor_value_info(name, TensorProto.INT64, shape) for name in inputs],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 3])],
        [
            numpy_helper.from_array(table, "table"),
            numpy_helper.from_array(np.array([2]), "last"),
            numpy_helper.from_array(np.array([1]), "second"),
            numpy_helper.from_array(np.array(1, np.float32), "one"),
        ],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    path = folder / "model.onnx"
    onnx.save(made, str(path))
    return path


def logits_by_hand(premise, hypothesis, types=True):
    total = np.zeros(3)
    for text, factor in ((premise, 1), (hypothesis, 2 if types else 1)):
        for word in text.split():
            total += factor * np.array(WEIGHTS.get(word, (0.0, 0.0, 0.0)))
    return total


def transformers_folder(folder, labels=("contradiction", "entailment", "neutral")):
    """Save a BERT of one layer with random weights, and a vocabulary of words."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizer

    (folder / "vocab.txt").write_text("\n".join((*WORDS, "[MASK]")), encoding="utf-8")
    BertTokenizer(str(folder / "vocab.txt"), model_max_length=16).save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(WORDS) + 1,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=16,
        num_labels=3,
        id2label=dict(enumerate(labels)),
        initializer_range=1.0,
    )
    BertForSequenceClassification(config).save_pretrained(folder)
    config_path = folder / "config.json"
    assert json.loads(config_path.read_text())["id2label"]
    return folder
