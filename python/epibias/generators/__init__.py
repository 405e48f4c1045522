"""Language models behind one protocol: prompts in, replies or failures out.

`base` has the protocol and its types, `prompts` the versioned templates, `parsers` what replies to
them mean, `fixed` a stand-in without a model.
"""

from epibias.generators.base import Failure, Generator, Prompt, Reply
from epibias.generators.fixed import FixedGenerator
from epibias.generators.parsers import (
    Anchor,
    parse_anchors,
    parse_likert,
    parse_passages,
    parse_poles,
)
from epibias.generators.prompts import render, template, templates

__all__ = [
    "Anchor",
    "Failure",
    "FixedGenerator",
    "Generator",
    "Prompt",
    "Reply",
    "parse_anchors",
    "parse_likert",
    "parse_passages",
    "parse_poles",
    "render",
    "template",
    "templates",
]
