"""Write docs/reference/settings.md from the settings themselves. `--check` only compares."""

from __future__ import annotations

import sys
from pathlib import Path

from queen.config import Setting, settings

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "settings.md"
HEAD = """\
# Settings

*Written by `scripts/settings_page.py`; change `src/queen/config.py` instead.*

Every setting has a default. A TOML file (`queen.toml`, or the one `QUEEN_CONFIG` names) overrides the
default, an environment variable overrides the file, a flag overrides the variable. Times are seconds,
sizes are bytes. Lists are separated by commas in the environment.

The names of Queen 0.15 are accepted as well; those marked *ms* count milliseconds, as they did there.
`PG_HOST`, `PG_PORT`, `PG_USER`, `PG_PASSWORD` and `PG_DB` together stand for `database_url`.

| setting | environment | default | allowed | meaning |
|---|---|---|---|---|
"""


def row(setting: Setting) -> str:
    names = [setting.variable, *(f"{alias} (ms)" if setting.scale != 1 else alias for alias in setting.aliases)]
    variables = ", ".join(f"`{name}`".replace(" (ms)`", "` (*ms*)") for name in names)
    return f"| `{setting.name}` | {variables} | {default(setting)} | {setting.allowed} | {setting.description} |\n"


def default(setting: Setting) -> str:
    value = setting.default
    if value is None or value == ():
        return "-"
    if isinstance(value, tuple):
        return f"`{','.join(value)}`"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def page() -> str:
    return HEAD + "".join(map(row, settings()))


def main() -> None:
    if "--check" in sys.argv:
        sys.exit(0 if PAGE.exists() and PAGE.read_text() == page() else f"{PAGE.name} is out of date: run `make docs`")
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
