"""Language models behind one protocol: prompts in, replies or failures out.

`base` has the protocol and its types, `prompts` the versioned templates, `parsers` what replies to
them mean. `openai_compatible` asks a server (`exchange` judges what it says, `pace` says when,
`capabilities` what it can do), `gguf` runs a model in this process, `cache` repeats a run without
either, `fixed` is a stand-in.
"""

from epibias.generators.base import Failure, Generator, Prompt, Reply
from epibias.generators.cache import CachedGenerator
from epibias.generators.capabilities import Capabilities, check_reached, probe
from epibias.generators.fixed import FixedGenerator
from epibias.generators.gguf import GGUFGenerator
from epibias.generators.openai_compatible import OpenAICompatibleGenerator
from epibias.generators.parsers import (
    Anchor,
    parse_anchors,
    parse_likert,
    parse_passages,
    parse_poles,
    parse_reasons,
    without_reasoning,
)
from epibias.generators.prompts import render, template, templates
from epibias.generators.reasons import generated_reasons

__all__ = [
    "Anchor",
    "CachedGenerator",
    "Capabilities",
    "Failure",
    "FixedGenerator",
    "GGUFGenerator",
    "Generator",
    "OpenAICompatibleGenerator",
    "Prompt",
    "Reply",
    "check_reached",
    "generated_reasons",
    "parse_anchors",
    "parse_likert",
    "parse_passages",
    "parse_poles",
    "parse_reasons",
    "probe",
    "render",
    "template",
    "templates",
    "without_reasoning",
]
