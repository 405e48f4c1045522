"""`epibias doctor`: what this installation can do, and why not where it cannot."""

from __future__ import annotations

import importlib.util
import platform
from typing import Any

import typer

from epibias.cli.console import console, guarded, json_text, write_output
from epibias.encoder.model import PACKAGED_MODULE

# Extra to the modules that it brings.
EXTRAS = {
    "cli": ("typer", "rich"),
    "parquet": ("pyarrow",),
    "index": ("pyarrow",),
    "encoder": ("sentence_transformers",),
    "report": ("plotly", "jinja2"),
}
EXTRAS["demo"] = (*(module for modules in EXTRAS.values() for module in modules), PACKAGED_MODULE)
# Not in the demo; what a run wants besides.
EXTRAS |= {
    "figures": ("matplotlib", "jinja2"),
    "generators": ("httpx", "tenacity"),
    "gguf": ("xllamacpp",),
    "nli": ("onnxruntime", "tokenizers"),
    "hub": ("datasets",),
    "encryption": ("cryptography",),
}


@guarded
def doctor(
    as_json: bool = typer.Option(False, "--json", help="One JSON document instead of a table."),
) -> None:
    """Say which backend, SIMD level, threads, CUDA and extras there are; exit 1 on a wrong core."""
    found = examine()
    if as_json:
        write_output("-", json_text(found))
    else:
        _show(found)
    if found["self_check"] != "passed":
        raise typer.Exit(1)


def examine() -> dict[str, Any]:
    """Gather everything `doctor` says, ready for JSON."""
    from epibias import kernels
    from epibias.experiment.manifest import importlib_version

    backend = {key: _plain(value) for key, value in kernels.backend_info().items()}
    extras = {
        name: [module for module in modules if importlib.util.find_spec(module) is None]
        for name, modules in EXTRAS.items()
    }
    return {
        "epibias": importlib_version("epibias"),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "backend": backend,
        "self_check": self_check(),
        "cache": cache_use(),
        "extras": {
            name: {"present": not missing, "missing": missing} for name, missing in extras.items()
        },
    }


def cache_use() -> dict[str, Any]:
    """Where embeddings are kept, and how much lies there; they are as private as the texts."""
    from epibias.encoder.cache import default_folder

    folder = default_folder()
    sizes = [path.stat().st_size for path in folder.glob("*.sqlite*")]
    return {"folder": str(folder), "n_files": len(sizes), "bytes": sum(sizes)}


def self_check() -> str:
    """Search among six known passages; "passed", or what came out instead."""
    import numpy as np

    from epibias.errors import InputError
    from epibias.retrieval import CosineIndex

    rows = np.array([[3, 4], [4, 3], [3, 4], [0, 1], [1, 0], [-1, 0]], dtype=np.float32)
    try:
        found = CosineIndex(rows).search(rows[:1], k=4).indices[0].tolist()
    except InputError as error:  # the emulated kernels were asked for and are not there
        return f"failed: {error}"
    return "passed" if found == [0, 2, 1, 3] else f"failed: ranks {found}"


def _show(found: dict[str, Any]) -> None:
    from rich.table import Table
    from rich.text import Text

    backend = found["backend"]
    if backend["cuda_emulated"]:
        warning = f"NOT FOR USE: {backend['cuda_emulated_reason']}; times mean nothing."
        console().print(Text(warning, style="bold red"))
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_row("epibias", f"{found['epibias'] or 'not installed'}, Python {found['python']}")
    table.add_row("system", found["system"])
    for name, value in backend.items():
        if not name.startswith("cuda"):
            shown = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            table.add_row(name.replace("_", " "), shown)
    for name in ("cuda", "cuda_emulated"):
        state = "yes" if backend[name] else "no"
        table.add_row(name.replace("_", " "), Text(f"{state}: {backend[f'{name}_reason']}"))
    table.add_row("self-check of the core", Text(found["self_check"]))
    cache = found["cache"]
    table.add_row("embedding cache", f"{cache['folder']}, {cache['bytes'] / 1e6:.1f} MB")
    for name, state in found["extras"].items():
        missing = ", ".join(state["missing"])
        hint = f"missing {missing}; pip install '.\\[{name}]' in a clone"
        table.add_row(f"extra {name}", "present" if state["present"] else hint)
    console().print(table)


def _plain(value: object) -> object:
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value if isinstance(value, str | int | float | bool) or value is None else str(value)
