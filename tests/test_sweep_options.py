"""The limits of the sweeps' options: those of the core, at every door of Python."""

from __future__ import annotations

import numpy as np
import pytest

from epibias import _core, _validate, kernels
from epibias._sweep_options import checked
from epibias.defenses import BiasDef
from epibias.errors import InputError
from epibias.threshold import printed_sweep, threshold_sweep

MAX_INT64 = 2**63 - 1
SIMILARITIES = np.linspace(0.2, 0.9, 8, dtype=np.float32)[None]
SCORES = (SIMILARITIES > 0.5).astype(np.float32)

# Option → its last values inside and the first ones outside.
SPLITS = {
    "kappa": ([np.nextafter(0, 1), 1e6], [0.0, -1.0, np.nextafter(1e6, 1e7), np.nan, np.inf]),
    "bandwidth_factor": ([np.nextafter(0, 1), 1e6], [0.0, np.nextafter(1e6, 1e7), np.inf]),
    "min_kept": ([1, MAX_INT64], [0, -1]),
    "max_exceedances": ([0, MAX_INT64], [-1]),
    "permutations": ([0, 1], [-1]),
}
PRINTED = {
    "tau": ([0.0, np.nextafter(0.5, 0)], [-np.nextafter(0, 1), 0.5, np.nan]),
    "n_thresholds": ([1, 1_000_000], [0, 1_000_001]),
    "floor": ([np.nextafter(0, 1), 1.0], [0.0, np.nextafter(1, 2), np.nan]),
    "bandwidth_factor": SPLITS["bandwidth_factor"],
}
# Limits that the core has no part in.
OWN = {
    "kappa_points": ([1e-300, 1e6], [0.0, 1e-301, np.nextafter(1e6, 1e7)]),
    "slack": ([0.0, 0.5], [-1e-9, np.nextafter(0.5, 1), np.nan]),
    "min_side": ([1, MAX_INT64], [0]),
    "seed": ([0, MAX_INT64], [-1]),
}
DOORS = {
    "splits": (_core.threshold_sweep, kernels.threshold_sweep, threshold_sweep),
    "printed": (_core.printed_sweep, kernels.printed_sweep, printed_sweep),
}
OF_THE_CORE = [("splits", name) for name in SPLITS] + [("printed", name) for name in PRINTED]


@pytest.mark.parametrize(("rule", "name"), OF_THE_CORE)
def test_what_the_core_takes_python_takes_and_nothing_else(rule, name):
    inside, outside = (SPLITS if rule == "splits" else PRINTED)[name]
    for value in inside:
        for sweep in DOORS[rule]:
            sweep(SIMILARITIES, SCORES, **{name: value})
    for value in outside:
        with pytest.raises(ValueError, match=rf"^{name}: expected "):
            DOORS[rule][0](SIMILARITIES, SCORES, **{name: value})
        for sweep in DOORS[rule][1:]:
            with pytest.raises(InputError, match=rf"^{name}: expected "):
                sweep(SIMILARITIES, SCORES, **{name: value})


BIASDEF = [
    *(("splits", name) for name in SPLITS if name not in ("max_exceedances", "permutations")),
    *(("splits", name) for name in OWN),
    *(("printed", name) for name in PRINTED),
]


@pytest.mark.parametrize(("rule", "name"), BIASDEF)
def test_biasdef_refuses_on_creation_what_a_sweep_would_refuse(rule, name):
    inside, outside = {**SPLITS, **OWN, **(PRINTED if rule == "printed" else {})}[name]
    options = {"rule": rule, **({"gate": 1.0, "permutations": 1} if name == "seed" else {})}
    for value in inside:
        assert getattr(BiasDef(**options, **{name: value}), name) == value
    for value in outside:
        with pytest.raises(InputError, match=rf"^{name}: expected "):
            BiasDef(**options, **{name: value})


@pytest.mark.parametrize(
    ("name", "values"), [(n, SPLITS[n][0]) for n in ("kappa", "bandwidth_factor")] + [("tau", [])]
)
def test_what_biasdef_takes_filters(name, values):
    from pools import make_pool

    pool = make_pool([SIMILARITIES[0], [0.5, 0.4]], [SCORES[0], [0.1, 0.2]])
    for value in values or PRINTED["tau"][0]:
        rule = {"rule": "printed"} if name == "tau" else {}
        assert len(BiasDef(5, **{name: value}, **rule).select(pool)) == 2
    for points in OWN["kappa_points"][0]:
        assert len(BiasDef(5, kappa_points=points).select(pool)) == 2


@pytest.mark.parametrize("name", ["min_kept", "min_side", "permutations", "max_exceedances"])
def test_integers_beyond_64_bits_are_refused_and_not_passed_on(name):
    with pytest.raises(InputError, match=rf"^{name}: .* that fits in 64 bits, got {2**63}$"):
        checked(**{name: 2**63})
    with pytest.raises(InputError, match=r"^k: .* that fits in 64 bits"):
        _validate.integer("k", -(2**63) - 1)
