"""What an index of passages on a device keeps there, and its search.

Everything stays on the device, in the framework of the passages: norms and codes, made once, and
what a search returns. Nothing waits for the device, so faults come up in `epibias.device.check`.
"""

from __future__ import annotations

from dataclasses import dataclass

from epibias import _validate, kernels
from epibias._dispatch import renamed
from epibias._frameworks import kind_of
from epibias.device.arrays import ForeignArray
from epibias.device.call import DeviceCall
from epibias.device.cosine_topk import PassageCodes, cosine_topk, prepare_passages
from epibias.errors import InputError
from epibias.retrieval import scans

_SCANS = ("auto", "float32", "int8")


@dataclass(frozen=True, eq=False, repr=False)
class PreparedOnDevice:
    """Inverse norms of the passages and their codes by number of bits, as in `Prepared`.

    Parameters
    ----------
    inverse_norms : float64 [n_passages], on the device
    codes : dict of int to PassageCodes
        Of 8 bits, or none for a float32 scan.
    """

    inverse_norms: ForeignArray
    codes: dict[int, PassageCodes]
    principal: None = None
    folder: None = None

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        codes = sum(each.codes.shape[0] * (each.codes.shape[1] + 8) for each in self.codes.values())
        return int(8 * self.inverse_norms.shape[0] + codes)

    def prefix(self, n_passages: int) -> PreparedOnDevice:
        """Those of the first passages, as views."""
        codes = {
            bits: PassageCodes(
                each.storage,
                each.codes[:n_passages],
                each.scales[:n_passages],
                each.residuals[:n_passages],
            )
            for bits, each in self.codes.items()
        }
        return PreparedOnDevice(self.inverse_norms[:n_passages], codes)


def prepare(embeddings: ForeignArray, scan: str) -> PreparedOnDevice:
    """Prepare passages for searches on their device."""
    _validate.choice("scan", scan, _SCANS)
    norms = kernels.inverse_norms(embeddings, "passage_embeddings")
    n_passages, dim = embeddings.shape
    codes = {}
    if 8 in scans.kept_codes(scan, n_passages, dim, mapped=False):
        with renamed(passages="passage_embeddings"):
            codes[8] = prepare_passages(embeddings, norms, "int8")
    return PreparedOnDevice(norms, codes)


def search(
    queries: ForeignArray, embeddings: ForeignArray, k: int, parts: PreparedOnDevice
) -> tuple[ForeignArray, ForeignArray, dict[str, object]]:
    """Search on the device: indices, similarities, and diagnostics as those of the CPU."""
    codes = parts.codes.get(8)
    indices, similarities, n_rescored = cosine_topk(
        queries, embeddings, k, inverse_norms=parts.inverse_norms, codes=codes
    )
    scan = "float32" if codes is None else "int8"
    return indices, similarities, {"scan": scan, "n_rescored": n_rescored, "n_repeated": 0}


def check_queries(queries: ForeignArray, embeddings: ForeignArray) -> None:
    """Refuse queries that are not float32 [n_queries, dim] where the passages are."""
    call = DeviceCall.of(query_embeddings=queries, passage_embeddings=embeddings)
    call.array("query_embeddings", queries, "float32", 2)


def refusal(argument: str, why: str, embeddings: ForeignArray) -> InputError:
    """Make the error for an index of passages on a device where only numpy arrays serve."""
    expected = f"an index of a numpy array, for {why}"
    return InputError(argument, expected, f"one of {kind_of(embeddings)}")
