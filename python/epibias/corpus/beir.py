"""A folder in BEIR's layout: corpus, queries and judgements that belong together."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from epibias import _files, _validate
from epibias._plain import described
from epibias.corpus import readers
from epibias.corpus.passages import Corpus
from epibias.corpus.qrels import Qrels
from epibias.corpus.queries import Queries
from epibias.errors import InputError


@dataclass(frozen=True)
class BeirData:
    """A corpus, the queries asked of it, and what is known to answer them.

    Parameters
    ----------
    corpus : Corpus
        The passages.
    queries : Queries
        The questions.
    qrels : Qrels
        The judgements; their ids are known to both.

    References
    ----------
    BEIR: A Heterogenous Benchmark for Zero-shot Evaluation of Information Retrieval Models,
    arXiv:2104.08663.
    """

    corpus: Corpus
    queries: Queries
    qrels: Qrels

    @classmethod
    def read(
        cls, folder: Path | str, split: str | None = None, *, blank: str = "error"
    ) -> BeirData:
        r"""Read a folder in BEIR's layout.

        Parameters
        ----------
        folder : Path
            With ``corpus.jsonl``, ``queries.jsonl`` and either ``qrels/<split>.tsv`` or
            ``qrels.tsv``.
        split : str, optional
            Which judgements. Without it: ``qrels.tsv``, or the only file under ``qrels/``, or
            ``qrels/test.tsv``.
        blank : {"error", "skip"}
            What to do with a passage whose text is blank; see `Corpus.from_jsonl`.

        Returns
        -------
        BeirData

        Raises
        ------
        InputError
            If a file is missing or wrong, or the judgements name an id that the others do not have.

        Examples
        --------
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as name:
        ...     folder = Path(name)
        ...     _ = (folder / "corpus.jsonl").write_text('{"_id": "p1", "text": "Yes."}\n')
        ...     _ = (folder / "queries.jsonl").write_text('{"_id": "q1", "text": "Is it?"}\n')
        ...     lines = "query-id\tcorpus-id\tscore\nq1\tp1\t1\n"
        ...     _ = (folder / "qrels.tsv").write_text(lines)
        ...     BeirData.read(folder).qrels.relevant("q1")
        ('p1',)
        """
        folder = Path(folder)
        judged = qrels_path(folder, split)
        corpus = readers.read_corpus_jsonl(folder / "corpus.jsonl", blank=blank)
        queries = readers.read_queries_jsonl(folder / "queries.jsonl")
        return cls(corpus, queries, readers.read_qrels(judged, corpus=corpus, queries=queries))

    def write(self, folder: Path | str, split: str = "test") -> None:
        """Write a folder that `read` reads back; each file is there whole or not at all.

        Parameters
        ----------
        folder : Path
            Made with mode 0700 where it is missing.
        split : str
            The judgements go to ``qrels/<split>.tsv``.

        Raises
        ------
        InputError
            If the folder cannot be written, or `split` is no plain name.
        """
        _check_split(split)
        folder = _files.make_folder(folder)
        _files.make_folder(folder / "qrels")
        readers.write_corpus_jsonl(self.corpus, folder / "corpus.jsonl")
        readers.write_queries_jsonl(self.queries, folder / "queries.jsonl")
        readers.write_qrels(self.qrels, folder / "qrels" / f"{split}.tsv")


def qrels_path(folder: Path, split: str | None) -> Path:
    """Find the file of judgements that `BeirData.read` takes.

    Raises
    ------
    InputError
        No such file, or a split that is no plain name.
    """
    there = sorted(folder.glob("qrels/*.tsv"))
    single = folder / "qrels.tsv"
    if split is not None:
        _check_split(split)
        wanted = folder / "qrels" / f"{split}.tsv"
    elif single.is_file():
        return single
    else:
        wanted = there[0] if len(there) == 1 else folder / "qrels" / "test.tsv"
    if not wanted.is_file():
        found = ", ".join(path.stem for path in there) or "no qrels.tsv and no qrels/*.tsv"
        raise InputError("split", f"a split with a file {wanted.name}", found, str(folder))
    return wanted


def _check_split(split: str) -> None:
    """Refuse a split that would lead out of the folder."""
    _validate.text("split", split)
    if split in (".", "..") or any(character in split for character in "/\\\0"):
        raise InputError("split", "a name, as in 'test', and no path", described(split))
