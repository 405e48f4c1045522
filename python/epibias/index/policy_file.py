"""A policy in TOML: tables named as the policy's fields, every key known, every value checked."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import fields
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

from epibias import _validate
from epibias._plain import described
from epibias.errors import InputError
from epibias.index.policy import GateRule, Policy, SelectionRule, SourceRule, TopicRule

Rule = TypeVar("Rule", SourceRule, TopicRule, SelectionRule, GateRule)
_PLAIN = ("nearest_golden", "unmatched", "review_days", "log_query_text")
_TABLES = ("sources", "topics", "selection", "gate")


def read_policy(path: Path | str) -> Policy:
    """Read a policy from a TOML file.

    Parameters
    ----------
    path : Path

    Returns
    -------
    Policy

    Raises
    ------
    InputError
        File, table and key of the first thing that is wrong, an unknown key included.
    """
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        found = error.strerror or str(error)
        raise InputError("policy", "a file that can be read", found, str(path)) from None
    return parse_policy(content, str(path))


def parse_policy(content: bytes, where: str = "policy") -> Policy:
    """Read a policy from the bytes of a TOML file.

    Examples
    --------
    >>> policy = parse_policy(b'''
    ... [sources.handbook]
    ... tier = 1
    ... owner = "Trust"
    ... [topics.recovery]
    ... owner = "Trust"
    ... sources = ["handbook"]
    ... ''')
    >>> policy.topics["recovery"].max_drift
    0.2
    """
    values = _parse(content, where)
    for name in values:
        if name not in (*_TABLES, *_PLAIN):
            raise InputError("policy", f"one of {', '.join((*_TABLES, *_PLAIN))}", name, where)
    try:
        return Policy(
            sources=_rules("sources", values, SourceRule),
            topics=_rules("topics", values, TopicRule),
            selection=_rule("selection", values.get("selection", {}), SelectionRule),
            gate=_rule("gate", values.get("gate", {}), GateRule),
            **{name: values[name] for name in _PLAIN if name in values},
        )
    except InputError as error:
        raise InputError(error.argument, error.expected, error.got, where) from None


def opswiki_policy() -> Policy:
    """Policy of the fictional firm whose wiki is the set `opswiki`.

    Examples
    --------
    >>> policy = opswiki_policy()
    >>> policy.authoritative("account_recovery", "open-wiki")
    False
    """
    return parse_policy(opswiki_policy_bytes(), "opswiki/policy.toml")


def opswiki_policy_bytes() -> bytes:
    """Give the text of that policy, as it is shipped."""
    return (resources.files("epibias") / "data" / "opswiki" / "policy.toml").read_bytes()


def _parse(content: bytes, where: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        tomllib = _validate.extra("epibias.index", "tomli", "index")
    try:
        return dict(tomllib.loads(content.decode("utf-8")))
    except ValueError as error:  # TOML's own error is one, and so is a wrong encoding
        raise InputError("policy", "TOML", str(error), where) from None


def _rules(name: str, values: Mapping[str, Any], kind: type[Rule]) -> dict[str, Rule]:
    table = values.get(name)
    if not isinstance(table, dict) or not table:
        raise InputError(name, f"tables [{name}.…]", described(table))
    return {key: _rule(f"{name}.{key}", value, kind) for key, value in table.items()}


def _rule(place: str, table: object, kind: type[Rule]) -> Rule:
    if not isinstance(table, dict):
        raise InputError(place, "a table", described(table))
    known = {field.name: str(field.type) for field in fields(kind)}
    for key in table:
        if key not in known:
            raise InputError(place, f"one of {', '.join(known)}", key)
    values = {key: _value(f"{place}.{key}", value, known[key]) for key, value in table.items()}
    try:
        return kind(**values)
    except TypeError:
        missing = [name for name in ("tier", "owner", "sources") if name in known]
        raise InputError(place, f"the keys {', '.join(missing)}", ", ".join(values)) from None


def _value(place: str, value: object, kind: str) -> Any:  # noqa: ANN401
    if kind == "str":
        return _validate.text(place, value)
    if kind == "int":
        return _validate.integer(place, value)
    if kind == "float":
        return _validate.number(place, value)
    if kind.startswith("tuple"):
        if not isinstance(value, list):
            raise InputError(place, "a list", described(value))
        texts = kind == "tuple[str, ...]"
        return tuple(
            _validate.text(place, one) if texts else _validate.integer(place, one) for one in value
        )
    if not isinstance(value, dict):
        raise InputError(place, "a table of tiers", described(value))
    return {_tier(place, key): _validate.number(place, one) for key, one in value.items()}


def _tier(place: str, key: str) -> int:
    if key not in ("1", "2", "3"):
        raise InputError(place, "tiers 1, 2 and 3", key)
    return int(key)
