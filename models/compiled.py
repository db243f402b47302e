"""Compiled recursions: machine code from plain Python functions, kept on disk between runs.

A Bayesian recursion is a long chain of cheap operations on a few numbers. Array code pays for every link of the chain
anew, once per window; compiled code does not, so a small fleet in catch-up costs as little per value as a large one.
Only IEEE arithmetic in the order written: no fused operations, no reordering, so that equal inputs give equal bits.

The machine code is kept under a name that covers the sources of all models and the compiler's version: a function must
never run with yesterday's version of another one that it calls.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import numba

Compilable = TypeVar("Compilable", bound=Callable[..., Any])

#: Where machine code is kept if not in the user's cache; numba's own variable.
_FOLDER_VARIABLE: Final = "NUMBA_CACHE_DIR"


def _folder() -> Path:
    given = os.environ.get(_FOLDER_VARIABLE)
    if given:
        return Path(given)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "kappa" / "models" / _version()


def _version() -> str:
    """Return a name for the sources of all models and the compiler."""
    digest = blake2b(numba.__version__.encode(), digest_size=8)
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()


def _kept() -> bool:
    """Tell whether machine code can be kept on disk; without, every process compiles for itself."""
    folder = _folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    # The attribute exists at run time only.
    setattr(numba.config, "CACHE_DIR", str(folder))  # noqa: B010
    return os.access(folder, os.W_OK)


_KEEP: Final = _kept()


def compiled(function: Compilable) -> Compilable:
    """Compile a function of numbers and arrays at its first call."""
    return cast(Compilable, numba.njit(cache=_KEEP, error_model="numpy")(function))


def inlined(function: Compilable) -> Compilable:
    """Compile a small function into its callers."""
    return cast(Compilable, numba.njit(cache=_KEEP, error_model="numpy", inline="always")(function))
