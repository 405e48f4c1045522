"""The manifest of a run: what decides its results (settings), and where it ran (environment).

Owns the two halves and how they are gathered. Settings must agree when a run is resumed;
environment and times are only recorded. No host name, user name or path outside the package.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from epibias.errors import InputError

FORMAT = 1
_PACKAGES = ("numpy", "scipy", "torch", "sentence-transformers", "transformers", "pyarrow")
_PACKAGE_FOLDER = Path(__file__).resolve().parents[1]


def settings_hash(settings: dict[str, Any]) -> str:
    """SHA-256 of the settings, independent of the order of their keys."""
    text = json.dumps(settings, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def code_identity() -> dict[str, Any]:
    """Version and hash of the code: what decides results, in a checkout and out of one."""
    return {"version": importlib_version("epibias"), "code_sha256": code_sha256()}


def code_sha256() -> str:
    """SHA-256 over the package's Python files, by name, and the core that is really loaded."""
    digest = hashlib.sha256()
    for path in sorted(_PACKAGE_FOLDER.rglob("*.py")):
        digest.update(path.relative_to(_PACKAGE_FOLDER).as_posix().encode() + b"\0")
        digest.update(path.read_bytes() + b"\0")
    digest.update(b"_core\0" + core_file().read_bytes())
    return digest.hexdigest()


def core_file() -> Path:
    """File of the compiled core; in an editable install it lies outside the package's folder."""
    spec = importlib.util.find_spec("epibias._core")  # asked where it is, not used
    if spec is None or spec.origin is None:
        raise InputError("epibias._core", "the compiled core", "none")
    return Path(spec.origin)


def git_commit() -> str | None:
    """Commit of the checkout the package runs from, "+changes" added if it is edited; else None."""
    root = _PACKAGE_FOLDER.parents[1]
    if not (root / ".git").exists() or root / "python" / "epibias" != _PACKAGE_FOLDER:
        return _commit_of_install()
    commit = _git(root, "rev-parse", "HEAD")
    if not commit:
        return None
    edited = _git(root, "status", "--porcelain", "--untracked-files=no", "--", "python", "cpp")
    return f"{commit}+changes" if edited else commit


def environment() -> dict[str, Any]:
    """Versions and machine, as far as they explain a time or a last digit."""
    from epibias import kernels

    info = kernels.backend_info()
    return {
        "commit": git_commit(),
        "python": platform.python_version(),
        "packages": {name: importlib_version(name) for name in _PACKAGES},
        "system": platform.system(),
        "machine": platform.machine(),
        "processor": _processor(),
        "n_cpus": os.cpu_count(),
        "backend": {key: info.get(key) for key in ("backend", "simd_level", "n_threads", "cuda")},
        "executable": Path(sys.executable).name,
    }


def importlib_version(name: str) -> str | None:
    """Version of an installed distribution, or None."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def now() -> str:
    """Time of day in UTC, ISO 8601, to the second."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def _git(root: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(  # noqa: S603 (fixed program and arguments)
            ["git", "-C", str(root), *arguments],  # noqa: S607
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _commit_of_install() -> str | None:
    """Commit that pip recorded when it installed from a repository (PEP 610)."""
    try:
        text = importlib.metadata.distribution("epibias").read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:
        return None
    record = json.loads(text) if text else {}
    commit = record.get("vcs_info", {}).get("commit_id")
    return str(commit) if commit else None


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"
