"""Options that commands share: the axis, the encoder, and how costs are measured."""

from __future__ import annotations

from typing import Any

import typer

from epibias.encoder import PACKAGED_MODEL

# None means not given: with --axis, which has its own, a given one is refused.
METHOD: Any = typer.Option(
    None,
    help="How the axis is fitted: pca, mean_difference or ridge.",
    show_default="pca",
)
PENALTY: Any = typer.Option(None, help="Penalty of the ridge regression.", show_default="1.0")
CENTER: Any = typer.Option(None, "--center", help="Subtract the anchors' mean score.")
ENCODER: Any = typer.Option(PACKAGED_MODEL, help="Encoder for texts: a name or a path.")
CACHE: Any = typer.Option(
    True,
    "--cache/--no-cache",
    help="Keep the embeddings of texts on disk, in the folder that `epibias doctor` names.",
)
POOL_FACTOR = 4  # candidates a passage selected, as in the paper
SCAN: Any = typer.Option("auto", help="First pass of the search, as `CosineIndex` takes it.")
THREADS: Any = typer.Option(
    None, help="Threads of the kernels.", show_default="EPIBIAS_THREADS, or all cores"
)
OUT: Any = typer.Option(help="Folder for the JSON document, the chart (SVG) and a page (HTML).")
