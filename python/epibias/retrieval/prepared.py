"""What an index keeps beside the embeddings: inverse norms and codes, in memory or in a folder.

In: embeddings. Out: `Prepared`. In a folder each array is a `.npy` of its own, which is mapped and
not read; `prepared.json` is written last and names them, so a folder without it is no index.
Embeddings can be turned back into text, and so can codes: files 0600, folders 0700.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epibias import _files, kernels, kernels_principal, kernels_quantized
from epibias._dispatch import renamed
from epibias._validate import Float32Array, Float64Array
from epibias.errors import InputError
from epibias.kernels_principal import PrincipalCodes
from epibias.retrieval import principal

FORMAT = "epibias-prepared-2"
# Had no codes along principal axes; all else is the same.
_FORMER_FORMAT = "epibias-prepared-1"
MANIFEST = "prepared.json"
_NORMS = "inverse_norms.npy"
_AXES, _LEADING, _REST = "principal_axes.npy", "principal_leading.npy", "principal_rest.npy"
_CHUNK_BYTES = 64 << 20  # of embeddings, read at once while a folder is filled
TILE = 64  # passages; codes of whole tiles can be put one behind the other
_SAMPLED_ROWS = 1024
_BITS = ((), (8,), (8, 4))  # of the codes that a folder may hold

Progress = Callable[[int, int], None]
Kept = tuple[tuple[int, ...], str]  # bits, and keeps_principal of `write`
Axes = tuple[Float32Array, int]  # axes [n_axes, dim], and how many lead


@dataclass(frozen=True, eq=False)
class Prepared:
    """Inverse norms of the passages, and their codes by number of bits.

    Parameters
    ----------
    inverse_norms : float64 [n_passages]
    codes : dict of int to uint8 [size]
        From `kernels_quantized.quantize_passages`; empty for a float32 scan.
    principal : PrincipalCodes, optional
        From `kernels_principal.quantize_principal`.
    folder : str, optional
        Where they are mapped from.
    """

    inverse_norms: Float64Array
    codes: dict[int, NDArray[np.uint8]] = field(default_factory=dict)
    principal: PrincipalCodes | None = None
    folder: str | None = None

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All arrays, by the names of their files."""
        codes = {_codes_name(bits): codes for bits, codes in self.codes.items()}
        arrays: dict[str, NDArray[Any]] = {_NORMS: self.inverse_norms, **codes}
        if self.principal is not None:
            own = self.principal
            arrays |= {_AXES: own.axes, _LEADING: own.leading, _REST: own.rest}
        return arrays

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self.arrays().values())


def in_memory(
    embeddings: Float32Array, bits: tuple[int, ...], keeps_principal: str = "no"
) -> Prepared:
    """Prepare embeddings that will be searched by this process; see `write`."""
    # The norms are also the check of every row: what passes can be ranked.
    norms = kernels.inverse_norms(embeddings, "passage_embeddings")
    bits, axes = _chosen(embeddings, bits, keeps_principal)
    return _coded(embeddings, norms, bits, axes)


def _chosen(
    embeddings: Float32Array, bits: tuple[int, ...], keeps_principal: str
) -> tuple[tuple[int, ...], Axes | None]:
    if keeps_principal == "no":
        return bits, None
    axes = principal.axes_of(embeddings)
    if keeps_principal == "if it pays" and not principal.pays(*axes):
        return bits, None
    return (8,), axes


def _coded(
    embeddings: Float32Array, norms: Float64Array, bits: tuple[int, ...], axes: Axes | None
) -> Prepared:
    with renamed(passages="passage_embeddings"):
        codes = {
            each: kernels_quantized.quantize_passages(embeddings, norms, each) for each in bits
        }
        along = None
        if axes is not None:
            along = kernels_principal.quantize_principal(embeddings, norms, *axes)
    return Prepared(norms, codes, along)


def write(
    embeddings: Float32Array,
    folder: Path | str,
    bits: tuple[int, ...],
    keeps_principal: str = "no",
    progress: Progress | None = None,
) -> None:
    """Prepare embeddings piece by piece, straight into the files of a folder.

    Parameters
    ----------
    embeddings : float32 [n_passages, dim]
    folder : Path
        Made if it is not there. What an earlier call left in it is replaced; other files stay.
    bits : tuple of int
        Of the codes of all columns.
    keeps_principal : {"no", "yes", "if it pays"}
        Codes along principal axes too, or instead of those of 4 bits where they read less.
    progress : callable, optional
        Called with the passages done so far and their number.
    """
    n_passages, dim = embeddings.shape
    rows = max(1, _CHUNK_BYTES // (max(1, dim) * 4 * TILE)) * TILE
    try:
        bits, axes = _chosen(embeddings, bits, keeps_principal)
    except InputError:
        kernels.inverse_norms(embeddings, "passage_embeddings")  # names the row, if it is one
        raise

    def pieces() -> Iterator[Prepared]:
        for start in range(0, n_passages, rows):
            piece = embeddings[start : start + rows]
            try:
                norms = kernels.inverse_norms(piece, "passage_embeddings")
                yield _coded(piece, norms, bits, axes)
            except InputError:
                # A row was named by its place in the piece: let all of them name it.
                kernels.inverse_norms(embeddings, "passage_embeddings")
                raise
            if progress is not None:
                progress(min(start + rows, n_passages), n_passages)

    _write_pieces(embeddings, folder, bits, axes, pieces())


def save(prepared: Prepared, embeddings: Float32Array, folder: Path | str) -> None:
    """Write what is in memory to the files of a folder, as `write` does."""
    own = prepared.principal
    axes = None if own is None else (own.axes, own.n_leading)
    _write_pieces(embeddings, folder, tuple(prepared.codes), axes, iter([prepared]))


def _write_pieces(
    embeddings: Float32Array,
    folder: Path | str,
    bits: tuple[int, ...],
    axes: Axes | None,
    pieces: Iterator[Prepared],
) -> None:
    folder = _files.make_folder(folder)
    shapes = _shapes(embeddings.shape, bits, None if axes is None else (len(axes[0]), axes[1]))
    free = shutil.disk_usage(folder).free
    wanted = sum(np.dtype(dtype).itemsize * math.prod(shape) for dtype, shape in shapes.values())
    if wanted > free:
        raise InputError("folder", f"{wanted:,} bytes free", f"{free:,}", str(folder))
    # Without its manifest a folder is no index: from here on, until all parts are whole.
    (folder / MANIFEST).unlink(missing_ok=True)
    digests = {name: hashlib.sha256() for name in shapes}
    with contextlib.ExitStack() as stack:
        files = {}
        for name, (dtype, shape) in shapes.items():
            temporary = stack.enter_context(_files.replacing(folder / name))
            files[name] = stack.enter_context(temporary.open("wb"))
            description = np.lib.format.dtype_to_descr(np.dtype(dtype))
            header = {"descr": description, "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(files[name], header)

        def add(name: str, array: NDArray[Any]) -> None:
            files[name].write(array.data)
            digests[name].update(array.data)

        if axes is not None:
            add(_AXES, axes[0])
        for piece in pieces:
            for name, array in piece.arrays().items():
                if name != _AXES:  # which all pieces share
                    add(name, array)
    manifest = {
        "format": FORMAT,
        "n_passages": len(embeddings),
        "dim": embeddings.shape[1],
        "bits": list(bits),
        "principal": None if axes is None else {"n_axes": len(axes[0]), "n_leading": axes[1]},
        "fingerprint": fingerprint(embeddings),
        "sha256": {name: digest.hexdigest() for name, digest in digests.items()},
    }
    _files.write_json(folder / MANIFEST, manifest)


def load(folder: Path | str, embeddings: Float32Array, *, verify: bool = False) -> Prepared:
    """Map what `write` left in a folder, for the embeddings that it was made of.

    Parameters
    ----------
    folder : Path
    embeddings : float32 [n_passages, dim]
    verify : bool
        Read all parts, and compare them with the hashes of when they were written.

    Raises
    ------
    InputError
        No such folder, another format, parts of the wrong size or (`verify`) content, or other
        embeddings.
    """
    folder = Path(folder)
    where = str(folder / MANIFEST)
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except OSError as error:
        expected = f"a folder that CosineIndex.prepare or .save finished, with {MANIFEST}"
        raise InputError("folder", expected, str(error.strerror), str(folder)) from error
    except ValueError as error:
        raise InputError("folder", "JSON", str(error), where) from error
    found = manifest.get("format") if isinstance(manifest, dict) else manifest
    if found not in (FORMAT, _FORMER_FORMAT):
        raise InputError("folder", f"format {FORMAT!r}", repr(found), where)
    shape = [manifest.get("n_passages"), manifest.get("dim")]
    if shape != list(embeddings.shape):
        expected = f"shape {tuple(shape)}, of which the folder was made"
        raise InputError("passage_embeddings", expected, f"{embeddings.shape}", where)
    if manifest.get("fingerprint") != fingerprint(embeddings):
        expected = "the embeddings of which the folder was made"
        raise InputError("passage_embeddings", expected, "rows that differ", where)
    if manifest.get("bits") not in [list(each) for each in _BITS]:
        expected = f"bits that are one of {[list(each) for each in _BITS]}"
        raise InputError("folder", expected, repr(manifest.get("bits")), where)
    bits = tuple(manifest["bits"])
    counts = _counts(manifest.get("principal"), bits, embeddings.shape[1], where)
    arrays = {
        name: _mapped(folder / name, *expected)
        for name, expected in _shapes(embeddings.shape, bits, counts).items()
    }
    along = None
    if counts is not None:
        along = PrincipalCodes(arrays[_AXES], counts[1], arrays[_LEADING], arrays[_REST])
    codes = {each: arrays[_codes_name(each)] for each in bits}
    found = Prepared(arrays[_NORMS], codes, along, str(folder))
    if verify:
        _check_content(found, manifest.get("sha256"), folder)
    return found


def prefix(whole: Prepared, n_passages: int, dim: int) -> Prepared:
    """View what belongs to the first passages: all, or a multiple of `TILE`."""
    codes = {
        bits: codes[: kernels_quantized.codes_size(n_passages, dim, bits)]
        for bits, codes in whole.codes.items()
    }
    along = None if whole.principal is None else whole.principal.prefix(n_passages)
    return Prepared(whole.inverse_norms[:n_passages], codes, along, whole.folder)


def fingerprint(embeddings: Float32Array) -> str:
    """Hash of the shape and of up to 1,024 rows, evenly spread: other embeddings have another."""
    n_passages, dim = embeddings.shape
    digest = hashlib.sha256(f"{n_passages} {dim} float32".encode())
    rows = np.unique(np.linspace(0, max(0, n_passages - 1), _SAMPLED_ROWS).astype(np.int64))
    for row in rows[: n_passages or 0]:
        digest.update(embeddings[row].tobytes())
    return digest.hexdigest()


def _check_content(found: Prepared, expected: object, folder: Path) -> None:
    for name, array in found.arrays().items():
        digest = hashlib.sha256()
        content = array.reshape(-1).view(np.uint8)
        for start in range(0, content.size, _CHUNK_BYTES):
            digest.update(content[start : start + _CHUNK_BYTES].data)
        wanted = expected.get(name) if isinstance(expected, dict) else None
        if digest.hexdigest() != wanted:
            got = f"sha256 {digest.hexdigest()[:12]}…"
            raise InputError("folder", f"sha256 {str(wanted)[:12]}…", got, str(folder / name))


def _codes_name(bits: int) -> str:
    return f"codes_{bits}_bits.npy"


def _shapes(
    matrix: tuple[int, ...], bits: tuple[int, ...], counts: tuple[int, int] | None
) -> dict[str, tuple[type[np.generic], tuple[int, ...]]]:
    """Dtype and shape of every array of a folder; `counts`: all axes and the leading ones."""
    n_passages, dim = matrix
    shapes: dict[str, tuple[type[np.generic], tuple[int, ...]]] = {
        _NORMS: (np.float64, (n_passages,))
    }
    for each in bits:
        size = kernels_quantized.codes_size(n_passages, dim, each)
        shapes[_codes_name(each)] = np.uint8, (size,)
    if counts is not None:
        leading, rest = kernels_principal.principal_sizes(n_passages, *counts)
        shapes[_AXES] = np.float32, (counts[0], dim)
        shapes |= {_LEADING: (np.uint8, (leading,)), _REST: (np.uint8, (rest,))}
    return shapes


def _counts(given: object, bits: tuple[int, ...], dim: int, where: str) -> tuple[int, int] | None:
    """All axes and the leading ones, as a manifest has them."""
    if given is None:
        return None
    if isinstance(given, dict) and 8 in bits:
        n_axes, n_leading = given.get("n_axes"), given.get("n_leading")
        if type(n_axes) is int and type(n_leading) is int and 1 <= n_leading <= n_axes <= dim:
            return n_axes, n_leading
    expected = f"principal with 1 <= n_leading <= n_axes <= {dim} beside 8 bits, or null"
    raise InputError("folder", expected, repr(given), where)


def _mapped(path: Path, dtype: type[np.generic], shape: tuple[int, ...]) -> NDArray[Any]:
    size = f"length {shape[0]}" if len(shape) == 1 else f"shape {shape}"
    expected = f"{np.dtype(dtype)} of {size}, as the manifest implies"
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise InputError("folder", expected, str(error), str(path)) from error
    if array.dtype != dtype or array.shape != shape:
        raise InputError("folder", expected, f"{array.dtype} of shape {array.shape}", str(path))
    return array
