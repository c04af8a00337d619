"""Databases of the earlier schemas, made up: for tests, and to rehearse a transfer before the day.

Everything follows from the seed: queues (one in three encrypted, one in four limited), partitions of unequal length and
empty ones, messages three of which share a time, groups at every stage, live and expired leases, dead letters, traces,
and with `odd` what grown systems have: holes, no payload, ids used twice, leases without cursors.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from typing import Final

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from queen.db.migrate import connect
from queen.sql import query
from queen.transfer.errors import TransferRefused
from queen.transfer.model import Version

SEALED: Final = 50


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much to make."""

    queues: int = 3
    partitions: int = 20
    messages: int = 1000
    groups: int = 3


async def generate(
    dsn: str,
    version: Version,
    sizes: Sizes,
    *,
    seed: str = "queen",
    odd: bool = True,
    key: str = "0" * 64,
) -> None:
    """Make a schema `queen` of the given version in an existing database that has none."""
    async with connect(dsn) as connection, connection.transaction():
        if await connection.fetchval(query("transfer/has_schema"), "queen"):
            raise TransferRefused("the database already has a schema queen: generate into an empty database")
        await connection.execute(query("transfer/generator/common_tables"))
        await connection.execute(query(f"transfer/generator/{version}_tables"))
        wanted = (seed, sizes.queues, sizes.partitions, sizes.messages, sizes.groups, odd, sealed_payloads(seed, key))
        await connection.execute(query("transfer/generator/sizes"), *wanted)
        await connection.execute(query("transfer/generator/common_fill"))
        await connection.execute(query(f"transfer/generator/{version}_fill"))


def sealed_payloads(seed: str, key: str) -> list[str]:
    """Payloads as the earlier versions seal them: AES-256-GCM with 16 bytes of iv."""
    cipher = AESGCM(bytes.fromhex(key))
    return [_sealed(cipher, f"{seed}:{number}") for number in range(SEALED)]


def _sealed(cipher: AESGCM, text: str) -> str:
    nonce = hashlib.sha256(text.encode()).digest()[:16]
    data = cipher.encrypt(nonce, f'{{"secret": "{text}"}}'.encode(), None)
    encrypted, iv, tag = (base64.b64encode(part).decode() for part in (data[:-16], nonce, data[-16:]))
    return f'{{"encrypted": "{encrypted}", "iv": "{iv}", "authTag": "{tag}"}}'
