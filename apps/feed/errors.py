"""Errors of the feed."""

from __future__ import annotations


class FeedError(RuntimeError):
    """The feed cannot start or go on; the message says what to do."""
