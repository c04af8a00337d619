"""Payload encryption: AES-256-GCM with a ring of keys. SQL never sees a key."""

from __future__ import annotations

import base64
import os
from collections.abc import Sequence
from typing import Final

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from queen.errors import EncryptionUnavailable

_NONCE: Final = 12
_TAG: Final = 16


class Envelope(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A sealed payload as it is stored. No `kid` means the first key of the ring."""

    encrypted: str
    iv: str
    auth_tag: str
    kid: str | None = None


class KeyRing:
    """Seals with the first key and opens with whichever key a payload names."""

    def __init__(self, keys: Sequence[str] = ()) -> None:
        self._keys: dict[str, AESGCM] = {}
        self._first: str | None = None
        for number, text in enumerate(keys):
            name, _, digits = text.rpartition(":")
            name = name or ("" if number == 0 else f"key-{number}")
            self._keys[name] = AESGCM(bytes.fromhex(digits))
            self._first = name if self._first is None else self._first

    def __bool__(self) -> bool:
        return bool(self._keys)

    def seal(self, payload: str) -> str:
        """Encrypt JSON text; the result is JSON text too."""
        if self._first is None:
            raise EncryptionUnavailable("no encryption key is configured; set QUEEN_ENCRYPTION_KEY to 64 hex digits")
        nonce = os.urandom(_NONCE)
        sealed = self._keys[self._first].encrypt(nonce, payload.encode(), None)
        envelope = Envelope(
            encrypted=base64.b64encode(sealed[:-_TAG]).decode(),
            iv=base64.b64encode(nonce).decode(),
            auth_tag=base64.b64encode(sealed[-_TAG:]).decode(),
            kid=self._first or None,
        )
        return msgspec.json.encode(envelope).decode()

    def open(self, sealed: str) -> str:
        """Decrypt what `seal` made; raises EncryptionUnavailable when no key fits."""
        try:
            envelope = msgspec.json.decode(sealed, type=Envelope)
            key = self._keys.get(envelope.kid if envelope.kid is not None else (self._first or ""))
            if key is None:
                raise EncryptionUnavailable(f"no key {envelope.kid or 'at all'!r} to decrypt this message with")
            data = base64.b64decode(envelope.encrypted) + base64.b64decode(envelope.auth_tag)
            return key.decrypt(base64.b64decode(envelope.iv), data, None).decode()
        except (msgspec.MsgspecError, ValueError) as error:
            raise EncryptionUnavailable(f"the message is marked encrypted but is no envelope: {error}") from error
        except InvalidTag as error:
            raise EncryptionUnavailable("the message cannot be decrypted with the configured keys") from error
