"""Which parameters of BiasDef decide anything, under which rule and beside which others."""

from __future__ import annotations

from collections.abc import Mapping

_ALWAYS = frozenset({"k", "fill", "rule", "bandwidth_factor"})

# What each rule reads. A parameter that it does not read has to stay at its default.
RULE_PARAMETERS: dict[str, frozenset[str]] = {
    "splits": _ALWAYS
    | {
        "criterion",
        "gate",
        "side",
        "mitigation",
        "min_kept",
        "min_side",
        "slack",
        "kappa",
        "kappa_points",
        "permutations",
        "seed",
    },
    "printed": _ALWAYS | {"tau", "n_thresholds", "floor"},
}


def unread_parameters(values: Mapping[str, object]) -> dict[str, str]:
    """Parameters that decide nothing, each with the choice that makes it so.

    Parameters
    ----------
    values : mapping
        All parameters of a BiasDef by name.

    Returns
    -------
    dict
        Name to the choice, as in "rule='printed'".

    Examples
    --------
    >>> from dataclasses import asdict
    >>> from epibias.defenses import BiasDef
    >>> unread_parameters(asdict(BiasDef(kappa_points=2.0)))["kappa"]
    'kappa_points=2.0'
    """

    def choice(name: str) -> str:
        return f"{name}={values[name]!r}"

    rule = str(values["rule"])
    known = frozenset().union(*RULE_PARAMETERS.values())
    unread = dict.fromkeys(sorted(known - RULE_PARAMETERS[rule]), choice("rule"))
    if values["criterion"] == "mi":  # mutual information needs no floor
        unread |= dict.fromkeys(("kappa", "kappa_points"), choice("criterion"))
    elif values["kappa_points"] is not None:
        unread["kappa"] = choice("kappa_points")
    if rule == "splits" and values["gate"] is None:
        unread |= dict.fromkeys(("permutations", "seed"), choice("gate"))
    return unread
