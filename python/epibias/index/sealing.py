"""Encryption at rest: what leaves the process for the store's disk, sealed with a key of yours.

Owns how bytes are sealed and opened (AES-256-GCM of the package cryptography, extra ``encryption``)
and where the key comes from: a file or an environment variable, never the store. Every file has a
key of its own, derived from yours and a random salt, and is sealed a chunk at a time with a counter
and a mark on the last, so that chunks cannot be changed, moved, cut off or taken from another file.
A file is opened whole into anonymous memory: nothing is written anywhere in clear, and nothing is
shared between processes either, which is the cost (see docs/index.md).

References
----------
Hoang, Reyhanitabar, Rogaway, Vizár: Online Authenticated-Encryption and its Nonce-Reuse
Misuse-Resistance, CRYPTO 2015, doi:10.1007/978-3-662-47989-6_24 (STREAM). NIST SP 800-38D (GCM),
RFC 5869 (HKDF).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import mmap
import os
import stat
from pathlib import Path
from typing import Any

from epibias import _files, _validate
from epibias.errors import InputError

KEY_VARIABLE, KEY_FILE_VARIABLE = "EPIBIAS_INDEX_KEY", "EPIBIAS_INDEX_KEY_FILE"
CHUNK = 1 << 20
_MAGIC = b"epibias sealed 1"
_SALT, _NONCE, _TAG, _KEY = 32, 12, 16, 32
_HEADER = len(_MAGIC) + _SALT


def new_key() -> bytes:
    """Draw a key, 32 bytes.

    Examples
    --------
    >>> len(new_key())
    32
    """
    return os.urandom(_KEY)


def write_key(path: Path | str) -> None:
    """Draw a key and write it to a new file, 64 hexadecimal digits, mode 0600.

    Raises
    ------
    InputError
        A file is there: a key that is overwritten takes every version with it.
    """
    with _files.disk_errors(path):
        try:
            descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _files.PRIVATE_FILE)
        except FileExistsError:
            found = "one that does"
            raise InputError("key file", "a file that does not exist", found, str(path)) from None
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(new_key().hex() + "\n")
            file.flush()
            os.fsync(file.fileno())
    _files.sync_folder(Path(path).parent)


def read_key(path: Path | str) -> bytes:
    """Read a key file.

    Raises
    ------
    InputError
        No file, one that others may read, or not 64 hexadecimal digits; never shows the content.
    """
    try:
        mode = stat.S_IMODE(Path(path).stat().st_mode)
        content = Path(path).read_text(encoding="ascii", errors="replace")
    except OSError as error:
        found = error.strerror or str(error)
        raise InputError("key file", "a file that can be read", found, str(path)) from None
    if mode & 0o077:
        raise InputError("key file", "mode 600: only its owner reads it", f"{mode:o}", str(path))
    return _parsed(content, str(path))


def key_from_environment(store: Path | str) -> bytes | None:
    """Take the key from `EPIBIAS_INDEX_KEY`, or the file that `EPIBIAS_INDEX_KEY_FILE` names.

    Raises
    ------
    InputError
        A file within the store: who copies the store would have the key, too.
    """
    if value := os.environ.get(KEY_VARIABLE):
        return _parsed(value, KEY_VARIABLE)
    path = os.environ.get(KEY_FILE_VARIABLE)
    if not path:
        return None
    if Path(path).resolve().is_relative_to(Path(store).resolve()):
        raise InputError("key file", f"a file outside the store {store}", "one in it", path)
    return read_key(path)


def sealer_of(key_id: str | None, key: bytes | None, where: str) -> Sealer | None:
    """Give what opens a store, or None for one that is not sealed.

    Parameters
    ----------
    key_id : str or None
        Of the key that the store was made with.
    key : bytes or None
        What the caller has; else the environment is asked.
    where : str

    Raises
    ------
    InputError
        A sealed store without a key or with another, a key for a store that is not sealed.
    """
    if key_id is None:
        if key is not None:
            raise InputError("key", "none: this store is not sealed", "a key", where)
        return None
    key = key_from_environment(where) if key is None else key
    expected = f"the key {key_id} of this store, in {KEY_VARIABLE} or {KEY_FILE_VARIABLE}"
    if key is None:
        raise InputError("key", expected, "none", where)
    sealer = Sealer(key)
    if sealer.key_id != key_id:
        raise InputError("key", expected, f"the key {sealer.key_id}", where)
    return sealer


class Sealer:
    """Seals and opens with one key.

    Parameters
    ----------
    key : bytes
        32 of them.

    Attributes
    ----------
    key_id : str
        Tells keys apart and says nothing about them.
    """

    def __init__(self, key: bytes) -> None:
        _validate.extra("epibias.index", "cryptography", "encryption")
        if len(key) != _KEY:
            raise InputError("key", f"{_KEY} bytes", f"{len(key)}")
        self.key = key
        self.key_id = self._derived(b"epibias key id").hex()[:16]
        self._small = _aes(self._derived(b"epibias small values"))
        self._hashing = self._derived(b"epibias hashes")

    def seal(self, content: bytes, about: str) -> bytes:
        """Seal a small value; `about` says what it is, and must be said again to open it."""
        nonce = os.urandom(_NONCE)
        return nonce + bytes(self._small.encrypt(nonce, content, about.encode()))

    def open(self, sealed: bytes, about: str) -> bytes:
        """Open a small value.

        Raises
        ------
        InputError
            It was changed, or is about something else.
        """
        return _opened(self._small, sealed[:_NONCE], sealed[_NONCE:], about.encode(), about)

    def seal_text(self, text: str, about: str) -> str:
        """Seal a text, as text."""
        return base64.b64encode(self.seal(text.encode(), about)).decode()

    def open_text(self, sealed: str, about: str) -> str:
        """Open what `seal_text` gave."""
        try:
            content = base64.b64decode(sealed, validate=True)
        except ValueError:
            raise InputError(about, "a sealed value", "another", "catalogue") from None
        return self.open(content, about).decode()

    def hash_of(self, content: str) -> str:
        """Hash a text so that nobody without the key can guess it."""
        return hmac.new(self._hashing, content.encode(), hashlib.sha256).hexdigest()

    def chunks(self, about: str) -> ChunkSealer:
        """Begin a file."""
        salt = os.urandom(_SALT)
        return ChunkSealer(_aes(self._derived(about.encode(), salt)), _MAGIC + salt)

    def open_file(self, path: Path, about: str) -> mmap.mmap:
        """Open a file that `chunks` made, into memory of this process alone.

        Parameters
        ----------
        path : Path
        about : str
            As it was sealed.

        Returns
        -------
        mmap.mmap
            Anonymous, left out of core dumps.

        Raises
        ------
        InputError
            Names the file, and the chunk that was changed.
        """
        with path.open("rb") as file:
            header = file.read(_HEADER)
            n_sealed = path.stat().st_size - _HEADER
            n_chunks = max(1, -(-n_sealed // (CHUNK + _TAG)))
            if header[: len(_MAGIC)] != _MAGIC or n_sealed < _TAG * n_chunks:
                raise InputError(path.name, "a sealed file", "another", str(path))
            cipher = _aes(self._derived(about.encode(), header[len(_MAGIC) :]))
            # Private: a child process gets a copy of what it changes, and no other can map it.
            kind = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
            memory = mmap.mmap(-1, max(1, n_sealed - _TAG * n_chunks), flags=kind)
            if hasattr(mmap, "MADV_DONTDUMP"):
                memory.madvise(mmap.MADV_DONTDUMP)
            for number in range(n_chunks):
                sealed = file.read(CHUNK + _TAG)
                nonce = _nonce(number, last=number == n_chunks - 1)
                place = f"{path}, chunk {number}"
                memory.write(_opened(cipher, nonce, sealed, header, path.name, place))
        return memory

    def _derived(self, about: bytes, salt: bytes | None = None) -> bytes:
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        return bytes(HKDF(SHA256(), _KEY, salt, about).derive(self.key))


class ChunkSealer:
    """Seals one file from its beginning to its end.

    Attributes
    ----------
    header : bytes
        What the file begins with.
    """

    def __init__(self, cipher: Any, header: bytes) -> None:  # noqa: ANN401  cryptography's
        self.header = header
        self._cipher = cipher
        self._waiting = bytearray()
        self._number = 0

    def add(self, content: bytes | memoryview) -> bytes:
        """Take what comes next; gives the chunks that are full."""
        self._waiting += content
        sealed = []
        # The last chunk is not empty unless the file is: one that is just full waits.
        while len(self._waiting) > CHUNK:
            sealed.append(self._sealed(bytes(self._waiting[:CHUNK]), last=False))
            del self._waiting[:CHUNK]
        return b"".join(sealed)

    def finish(self) -> bytes:
        """Give the last chunk, marked as that."""
        return self._sealed(bytes(self._waiting), last=True)

    def _sealed(self, content: bytes, *, last: bool) -> bytes:
        nonce = _nonce(self._number, last=last)
        self._number += 1
        return bytes(self._cipher.encrypt(nonce, content, self.header))


def _aes(key: bytes) -> Any:  # noqa: ANN401  cryptography's
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(key)


def _nonce(number: int, *, last: bool) -> bytes:
    return bytes([last]) + number.to_bytes(_NONCE - 1, "big")


def _opened(
    cipher: Any,  # noqa: ANN401
    nonce: bytes,
    sealed: bytes,
    about: bytes,
    name: str,
    where: str = "catalogue",
) -> bytes:
    from cryptography.exceptions import InvalidTag

    try:
        return bytes(cipher.decrypt(nonce, sealed, about))
    except (InvalidTag, ValueError):
        expected = "what was sealed with this key"
        raise InputError(name, expected, "something else: it was changed", where) from None


def _parsed(content: str, where: str) -> bytes:
    digits = content.strip()
    try:
        key = bytes.fromhex(digits)
    except ValueError:
        key = b""
    if len(key) != _KEY or len(digits) != 2 * _KEY:
        expected = f"{2 * _KEY} hexadecimal digits"
        raise InputError("key", expected, f"{len(digits)} characters that are not", where)
    return key
