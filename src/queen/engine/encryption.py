"""Payload encryption: AES-256-GCM with a ring of keys. SQL never sees a key."""

from __future__ import annotations

import base64
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from queen.errors import EncryptionUnavailable

_NONCE: Final = 12
_TAG: Final = 16


class Envelope(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A sealed payload as it is stored. `kid` names the key that sealed it, if that has a name."""

    encrypted: str
    iv: str
    auth_tag: str
    kid: str | None = None


class KeyRing:
    """Seals with the first key and opens with whichever fits: the one a payload names, then every other.

    So a key may get a name, lose it, or move down the list, and what it sealed can still be read.
    """

    def __init__(self, keys: Sequence[str] = ()) -> None:
        self._keys: list[tuple[str, AESGCM]] = []
        for text in keys:
            name, _, digits = text.rpartition(":")
            self._keys.append((name, AESGCM(bytes.fromhex(digits))))

    def __bool__(self) -> bool:
        return bool(self._keys)

    def seal(self, payload: str) -> str:
        """Encrypt JSON text; the result is JSON text too."""
        if not self._keys:
            raise EncryptionUnavailable("no encryption key is configured; set QUEEN_ENCRYPTION_KEY to 64 hex digits")
        nonce = os.urandom(_NONCE)
        name, key = self._keys[0]
        sealed = key.encrypt(nonce, payload.encode(), None)
        envelope = Envelope(
            encrypted=base64.b64encode(sealed[:-_TAG]).decode(),
            iv=base64.b64encode(nonce).decode(),
            auth_tag=base64.b64encode(sealed[-_TAG:]).decode(),
            kid=name or None,
        )
        return msgspec.json.encode(envelope).decode()

    def open(self, sealed: str) -> str:
        """Decrypt what `seal` made; raises EncryptionUnavailable when no key fits."""
        try:
            envelope = msgspec.json.decode(sealed, type=Envelope)
            nonce = base64.b64decode(envelope.iv)
            data = base64.b64decode(envelope.encrypted) + base64.b64decode(envelope.auth_tag)
            for _, key in sorted(self._keys, key=lambda one: one[0] != (envelope.kid or "")):
                with suppress(InvalidTag):
                    return key.decrypt(nonce, data, None).decode()
        except (msgspec.MsgspecError, ValueError) as error:
            raise EncryptionUnavailable(f"the message is marked encrypted but is no envelope: {error}") from error
        named = f", it names key {envelope.kid!r}" if envelope.kid else ""
        raise EncryptionUnavailable(f"the message cannot be decrypted with the configured keys{named}")
