"""Errors of the local stack. Every message says what is wrong and what to do about it."""

from __future__ import annotations


class LocalStackError(RuntimeError):
    """The local stack cannot do what was asked; the message names the way out."""
