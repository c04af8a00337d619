"""The schema a provider works in: its statements and its migrations, under whatever name it has."""

import dataclasses
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from queen.db.migration_set import DURABLE, MigrationSet, Script
from queen.durable.provider import ProviderError

__all__ = ["DEFAULT_SCHEMA", "Schema"]

DEFAULT_SCHEMA = DURABLE.schema
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_QUALIFIED = re.compile(rf"\b{DEFAULT_SCHEMA}\b")


@cache
def _queries() -> dict[str, str]:
    folder = files("queen.sql").joinpath("durable", "queries")
    return {item.name.removesuffix(".sql"): item.read_text("utf-8") for item in folder.iterdir()}


@dataclass(frozen=True)
class _Renamed(MigrationSet):
    """The same scripts for a schema of another name."""

    @property
    def migrations(self) -> list[Script]:
        """The numbered scripts."""
        return [
            dataclasses.replace(script, text=self._rename(script.text), down=self._rename(script.down))
            for script in DURABLE.migrations
        ]

    @property
    def functions(self) -> list[Script]:
        """The replaceable scripts."""
        return [dataclasses.replace(script, text=self._rename(script.text)) for script in DURABLE.functions]

    def _rename(self, text: str) -> str:
        return _QUALIFIED.sub(self.schema, text)


class Schema:
    """Statements by the name of their file, and the migrations, for one schema."""

    def __init__(self, name: str = DEFAULT_SCHEMA) -> None:
        if _NAME.fullmatch(name) is None:
            raise ProviderError("connect", f"schema must be a lower-case SQL name, got {name!r}")
        self.name = name
        self.migrations = DURABLE if name == DEFAULT_SCHEMA else _Renamed("durable", name, DURABLE.root)
        self._statements = {key: _QUALIFIED.sub(name, text) for key, text in _queries().items()}

    def __getitem__(self, statement: str) -> str:
        return self._statements[statement]
