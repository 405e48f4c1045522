"""Turn bench/results/*.json into the tables of docs/benchmarks.md, docs/index.md and README.md.

    python bench/tables.py
    python bench/tables.py --check     # exit 1 when the pages say something else

Only what stands between the markers changes. A results file that is missing is said to be missing.
The layouts of the other benches are known to stage_tables.py.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import goals
import index_table
import stage_tables
from stage_tables import NOT_RUN, figure, markdown

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results"
DOCS, INDEX, README = (ROOT / name for name in ("docs/benchmarks.md", "docs/index.md", "README.md"))
SHORT_PEERS = ("numpy", "torch", "FAISS", "FAISS Panorama")
BASE = "auto"  # our contender that ratios are to

Row = dict[str, Any]


def read(folder: Path = RESULTS) -> dict[str, dict[str, Any] | None]:
    """Give each bench's results, or None where there are none."""
    found: dict[str, dict[str, Any] | None] = {}
    for name in LAYOUTS:
        path = folder / f"{name}.json"
        found[name] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None
    return found


def of_environment(environment: dict[str, Any]) -> dict[str, Any]:
    """Give what the package's own commands say of the machine in the words of the benches."""
    commit = environment["commit"]  # None where what ran was installed from no clone
    return {
        "processor": environment["processor"],
        "cores": environment["n_cpus"],
        "threads": environment["backend"]["n_threads"],
        **({"commit": commit[:12]} if commit else {}),
    }


def where(results: dict[str, Any]) -> str:
    """Give the line that says what a results file was measured on, and with."""
    of_bench = "machine" in results
    machine = results["machine"] if of_bench else of_environment(results["environment"])
    parts = [str(machine.get("processor", "processor not recorded"))]
    facts = {"cores": "{} cores", "threads": "threads: {}", "commit": "commit {}"}
    facts["load_when_it_began"] = "load {} when it began"
    parts += [text.format(machine[name]) for name, text in facts.items() if name in machine]
    command = f"; `{results['command'].strip()}`" if "command" in results else ""
    return f"{', '.join(parts)}{command}."


# ---- cosine_topk -------------------------------------------------------------------------------


def distinct(rows: Iterable[Row], *names: str) -> list[tuple[Any, ...]]:
    """Give the values of some columns, each combination once, in the order of the rows."""
    return list(dict.fromkeys(tuple(row[name] for name in names) for row in rows))


def pick(rows: Iterable[Row], **wanted: object) -> list[Row]:
    """Give the rows whose columns have these values."""
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def cell(rows: list[Row], base: Row | None, contender: str, level: str = "") -> str:
    """Give a contender's time as a multiple of ours, or in milliseconds where there is no base."""
    found = pick(rows, contender=contender, level=level)
    if not found or "median_ms" not in found[0]:
        return NOT_RUN
    milliseconds = found[0]["median_ms"]
    return figure(milliseconds) if base is None else f"× {figure(milliseconds / base['median_ms'])}"


def best_level(rows: list[Row]) -> str:
    """Give the SIMD level that our first rows ran at: the machine's best."""
    return str(next(row["level"] for row in rows if row["level"]))


def ratio_table(rows: list[Row], peers: Sequence[str], scans: Sequence[str]) -> str:
    """Give a line for each number of queries and k: our milliseconds, and ratios of the peers."""
    level = best_level(rows)
    lines = []
    for n_queries, k in distinct(rows, "n_queries", "k"):
        case = pick(rows, n_queries=n_queries, k=k)
        (base,) = pick(case, contender=BASE, level=level)
        ours = f"{figure(base['median_ms'])} ({base['scan']})"
        others = [cell(case, None, scan, level) for scan in scans if scan != BASE]
        lines.append([n_queries, k, ours, *others, *(cell(case, base, peer) for peer in peers)])
    named = [f"{scan}, ms" for scan in scans if scan != BASE]
    return markdown(["queries", "k", "epibias, ms (scan)", *named, *peers], lines)


def level_table(rows: list[Row], scans: Sequence[str]) -> str:
    """Give the milliseconds of each scan at each SIMD level."""
    levels = [level for (level,) in distinct(rows, "level") if level]
    columns = [(scan, level) for scan in scans for level in levels]
    lines = []
    for dim, n_queries in distinct(rows, "dim", "n_queries"):
        case = pick(rows, dim=dim, n_queries=n_queries)
        cells = [cell(case, None, scan, level) for scan, level in columns]
        if any(shown != NOT_RUN for shown in cells):
            lines.append([dim, n_queries, *cells])
    return markdown(["dim", "queries", *(f"{scan} {level}" for scan, level in columns)], lines)


def error_table(results: dict[str, Any]) -> str:
    """Give each contender's other ids, error, preparation and configurations."""
    rows, sets = results["rows"], results["sets"]
    lines: list[list[object]] = []
    widest = [part for part in sets if part["dim"] == sets[0]["dim"] and part["n_threads"] == 1]
    for name, facts in widest[0]["ours"]["scans"].items():
        lines.append(
            [f"epibias {name}", "0", "0 (bits of the oracle)"]
            + [figure(facts[fact]) for fact in ("prepare_s", "bytes_a_passage")]
            + [""]
        )
    for name, facts in widest[0]["peers"].items():
        ran = [row for row in pick(rows, contender=name) if "median_ms" in row]
        if not ran:
            lines.append([name, *[NOT_RUN] * 4, facts.get("missing", "")])
            continue
        other = sum(row["other_ids_a_query"] / row["k"] for row in ran) / len(ran)
        worst = max(row["largest_error"] for row in ran)
        chosen = ", ".join(dict.fromkeys(row["configuration"] for row in ran))
        lines.append([name, f"{1e6 * other:.0f}", f"{worst:.1e}"])
        lines[-1] += [figure(facts["prepare_s"]), "", chosen]
    columns = ["contender", "other ids, of a million", "largest error", "prepare, s"]
    return markdown([*columns, "bytes a passage", "configurations taken"], lines)


def drawn_table(drawn: dict[str, Any]) -> str:
    """Give how near the drawn rows come to the real ones."""
    reached, spectra = drawn["reached_by_a_share"], drawn["spectrum"]
    shares, parts = list(reached["real"]), list(spectra["real"])
    columns = ["rows", "how many", *(f"{100 * float(share):g} %" for share in shares), *parts]
    lines = [
        [kind, figure(drawn["n_passages"][kind])]
        + [figure(values[name]) for values, names in pairs for name in names]
        for kind in ("real", "drawn")
        for pairs in [((reached[kind], shares), (spectra[kind], parts))]
    ]
    return markdown(columns, lines)


def cosine_topk(results: dict[str, Any]) -> str:
    """Give all tables of the search."""
    rows = results["rows"]
    parts = []
    scans = [name for (name, level) in distinct(rows, "contender", "level") if level]
    scans = list(dict.fromkeys(scans))
    for data, dim, n_threads in distinct(rows, "data", "dim", "n_threads"):
        some = pick(rows, data=data, dim=dim, n_threads=n_threads)
        peers = [name for (name, level) in distinct(some, "contender", "level") if not level]
        facts = next(
            part
            for part in results["sets"]
            if (part["dim"], part["n_threads"]) == (dim, n_threads) and part["rows_are"]
        )
        threads = "one thread" if n_threads == 1 else f"{n_threads} threads"
        kind = {"normal": "independent normal rows (the worst case)"}.get(data, "rows as of text")
        head = f"#### {facts['n_passages']:,} × {dim}, {threads}, {kind}"
        parts += [head, ratio_table(some, peers, scans)]
    one = [row for row in rows if row["n_threads"] == 1 and row["data"] != "normal"]
    parts += ["#### SIMD levels, one thread, k = 20, ms", level_table(pick(one, k=20), scans)]
    parts += ["#### Error, preparation, configuration", error_table(results)]
    if "drawn_rows" in results:
        parts += ["#### The drawn rows", drawn_table(results["drawn_rows"])]
    tried = results.get("faiss_core_types", {}).get("tried", {})
    core_types = ", ".join(
        f"{name} {figure(found['ms'])} ms" for name, found in tried.items() if "ms" in found
    )
    if core_types:
        parts.append(f"`OPENBLAS_CORETYPE` for FAISS, 256 queries × 20,000 × 384: {core_types}.")
    peers_line = ", ".join(f"{name} {version}" for name, version in results["peers"].items())
    return "\n\n".join([*parts, f"Releases: {peers_line}."])


def short_table(results: dict[str, Any] | None) -> str:
    """Give README's table: k = 20, the peers at the top."""
    if results is None:
        return "`bench/results/cosine_topk.json` is missing: nothing was measured yet."
    rows = [row for row in results["rows"] if row["k"] == 20 and row["data"] != "normal"]
    level = best_level(rows)
    lines = []
    for dim, n_threads, n_queries in distinct(rows, "dim", "n_threads", "n_queries"):
        case = pick(rows, dim=dim, n_threads=n_threads, n_queries=n_queries)
        (base,) = pick(case, contender=BASE, level=level)
        ratios = [cell(case, base, peer) for peer in SHORT_PEERS]
        lines.append([dim, n_threads, n_queries, figure(base["median_ms"]), *ratios])
    columns = ["dim", "threads", "queries", "epibias, ms", *SHORT_PEERS]
    return f"{markdown(columns, lines)}\n\n{where(results)}"


# ---- all benches -------------------------------------------------------------------------------


LAYOUTS: dict[str, Callable[[dict[str, Any]], str]] = {
    "cosine_topk": cosine_topk,
    "threshold_sweep": stage_tables.threshold_sweep,
    "polarization_axis": stage_tables.polarization_axis,
    "biasdef_select": stage_tables.biasdef_select,
    "stress": stage_tables.stress,
}


def page(found: dict[str, dict[str, Any] | None]) -> str:
    """Give what belongs between the markers of docs/benchmarks.md."""
    parts = []
    for name, results in found.items():
        parts.append(f"### {name}")
        if results is None:
            parts.append(f"`bench/results/{name}.json` is missing: nothing was measured yet.")
            continue
        parts.append(where(results))
        parts.append(LAYOUTS[name](results))
    return "\n\n".join(parts)


def replaced(text: str, page_name: str, name: str, content: str) -> str:
    """Give a page's text with other content between two markers."""
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    before, found, rest = text.partition(begin)
    _, found_end, after = rest.partition(end)
    if not found or not found_end:
        raise SystemExit(f"{page_name}: expected the markers {begin} and {end}")
    return f"{before}{begin}\n{content}\n{end}{after}"


def pages(folder: Path = RESULTS) -> dict[Path, str]:
    """Give each page's text, with its tables made anew."""
    found = read(folder)
    proofs = folder / "acceptance.json"
    acceptance = json.loads(proofs.read_text(encoding="utf-8")) if proofs.is_file() else None
    benchmarks = f"### Goals\n\n{goals.table(found)}\n\n{page(found)}"
    readme = README.read_text(encoding="utf-8")
    readme = replaced(readme, README.name, "bench-table", short_table(found["cosine_topk"]))
    readme = replaced(readme, README.name, "index-table", index_table.table(acceptance))
    docs, index = DOCS.read_text(encoding="utf-8"), INDEX.read_text(encoding="utf-8")
    return {
        DOCS: replaced(docs, DOCS.name, "benchmarks", benchmarks),
        INDEX: replaced(index, INDEX.name, "large-store", index_table.costs(acceptance)),
        README: readme,
    }


def main() -> int:
    """Rewrite, or check."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if it differs")
    check = parser.parse_args().check
    differing = [path for path, text in pages().items() if path.read_text(encoding="utf-8") != text]
    if check:
        return int(bool(differing))
    for path, text in pages().items():
        temporary = path.with_suffix(".tmp")
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
