"""What an argument gives: itself, a file it names, or standard input."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import msgspec


def content(text: str) -> bytes:
    """The bytes of an argument: as given, of the file that `@FILE` names, or with `-` of standard input."""
    if text == "-":
        return sys.stdin.buffer.read().strip()
    if not text.startswith("@"):
        return text.encode()
    try:
        return Path(text[1:]).read_bytes().strip()
    except OSError as error:
        raise click.UsageError(f"{text}: {error.strerror}") from None


def json_of(option: str, text: str) -> object:
    """The JSON that an option gives, one way or the other."""
    try:
        return msgspec.json.decode(content(text))
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{option}: not JSON: {error}") from None
