"""Compile the models and keep their machine code: `python -m models`. Jobs then start without compiling."""

from __future__ import annotations

from models.series import prepare

prepare()
