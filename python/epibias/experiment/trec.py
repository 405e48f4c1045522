"""TREC files of a run: what each defence selected (run) and what is relevant (qrels).

Owns their layout on disk and the line formats; trec_eval, ir_measures and ranx read them.

    trec/relevant.qrels                    the benign passages of each topic, grade 1
    trec/<attack>/adversarial.qrels        what was injected, grade 1: P@k of these is A-Recall@k
    trec/<attack>/<defense>-<axis>.run     the selection, best first

Scores in a run file fall strictly (n, n − 1, …, 1): tools that sort by score and break ties in
their own way then keep the order of the defence. Similarities are in raw.parquet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from epibias import _files
from epibias.errors import InputError
from epibias.experiment.plan import Attack, Plan
from epibias.experiment.raw import Row


def run_lines(query_id: str, ids: Sequence[str], tag: str) -> list[str]:
    """Lines of a run file for one query.

    Examples
    --------
    >>> run_lines("q1", ["b", "a"], "none")
    ['q1 Q0 b 1 2 none', 'q1 Q0 a 2 1 none']
    """
    n = len(ids)
    query_id, tag = _column("query_id", query_id), _column("tag", tag)
    ids = [_column("passage id", name) for name in ids]
    return [f"{query_id} Q0 {name} {rank} {n - rank + 1} {tag}" for rank, name in enumerate(ids, 1)]


def qrels_lines(grades: Mapping[str, Iterable[str]]) -> list[str]:
    """Lines of a qrels file: grade 1 for each passage of each query.

    Examples
    --------
    >>> qrels_lines({"q1": ["a", "b"]})
    ['q1 0 a 1', 'q1 0 b 1']
    """
    return [
        f"{_column('query_id', query)} 0 {_column('passage id', name)} 1"
        for query, names in grades.items()
        for name in names
    ]


def _column(argument: str, value: str) -> str:
    """Give a value that stays one column: TREC files separate columns by white space."""
    if value.split() != [value]:
        raise InputError(argument, "no white space, as TREC files need", repr(value[:60]))
    return value


def write_trec(
    folder: Path, rows: Sequence[Row], plan: Plan, relevant: Mapping[str, list[str]]
) -> int:
    """Write all run and qrels files; returns how many files there are.

    Parameters
    ----------
    folder : Path
        The `trec` folder; made when missing.
    rows : sequence of rows
        Raw rows of the whole run.
    plan : Plan
        Gives the attacks, axes and defences, in order.
    relevant : mapping
        Query id to the ids of its relevant passages.
    """
    _files.make_folder(folder)
    _write(folder / "relevant.qrels", qrels_lines(relevant))
    n_files = 1
    usable = [row for row in rows if row["status"] == "ok"]
    for attack in plan.attacks:
        of_attack = [row for row in usable if Attack.of_row(row) == attack]
        if not of_attack:
            continue
        _files.make_folder(folder / attack.key)
        injected = {
            row["query_id"]: row["injected_ids"] for row in of_attack if row["injected_ids"]
        }
        if injected:
            _write(folder / attack.key / "adversarial.qrels", qrels_lines(injected))
            n_files += 1
        for named in plan.defenses:
            for axis in plan.axis_methods if named.uses_axis else plan.axis_methods[:1]:
                tag = f"{named.key}-{axis}" if named.uses_axis else named.key
                lines = [
                    line
                    for row in of_attack
                    if row["defense"] == named.key and row["axis"] == axis
                    for line in run_lines(row["query_id"], row["selected_ids"], tag)
                ]
                _write(folder / attack.key / f"{tag}.run", lines)
                n_files += 1
    return n_files


def _write(path: Path, lines: Sequence[str]) -> None:
    _files.write_text(path, "".join(f"{line}\n" for line in lines))
