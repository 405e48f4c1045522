"""The exceptions that epibias raises for what a caller can put right.

Every message has the same parts: argument, what was expected, what was found and, where it
helps, where (row, line, file).
"""

from __future__ import annotations


class InputError(ValueError):
    """A wrong argument, file or row.

    Parameters
    ----------
    argument : str
        Name of the argument, option or file at fault.
    expected : str
        What would have been accepted.
    got : str
        What was found instead.
    where : str, optional
        Row, line or path, where the argument alone does not say it.

    Examples
    --------
    >>> print(InputError("k", "1 to 3 (the number of passages)", "7"))
    k: expected 1 to 3 (the number of passages), got 7
    >>> print(InputError("corpus", "a JSON object", "'[1]'", where="pages.jsonl, line 4"))
    corpus: expected a JSON object, got '[1]' (pages.jsonl, line 4)
    """

    def __init__(self, argument: str, expected: str, got: str, where: str | None = None) -> None:
        self.argument, self.expected, self.got, self.where = argument, expected, got, where
        message = f"{argument}: expected {expected}, got {got}"
        super().__init__(f"{message} ({where})" if where else message)

    def __reduce__(self) -> tuple[type[InputError], tuple[str, str, str, str | None]]:
        return type(self), (self.argument, self.expected, self.got, self.where)


class MissingExtraError(InputError, ImportError):
    """A feature needs a package that is not installed; the message names the extra.

    Examples
    --------
    >>> print(MissingExtraError("from_parquet", "pyarrow", "parquet"))
    from_parquet: expected the package 'pyarrow' (pip install '.[parquet]' in a clone), got none
    """

    def __init__(self, argument: str, package: str, extra: str) -> None:
        self.package, self.extra = package, extra
        super().__init__(
            argument, f"the package '{package}' (pip install '.[{extra}]' in a clone)", "none"
        )

    def __reduce__(self) -> tuple[type[InputError], tuple[str, str, str]]:  # type: ignore[override]
        return type(self), (self.argument, self.package, self.extra)


class RowError(InputError, IndexError):
    """A row out of range: wrong input, and what `for … in` takes for the end of a sequence."""


class ValidityWarning(UserWarning):
    """A polarization axis was fitted, but there is little evidence that it carries stance."""


class CalibrationWarning(UserWarning):
    """A defence was calibrated on so little that it does not act where nothing else is known."""


class TruncationWarning(UserWarning):
    """Some texts were longer than the encoder reads; what lies beyond did not count."""


class TornRecordWarning(UserWarning):
    """The last line of a file is incomplete, because a process was killed while writing it."""
