"""Numbers and times as people say them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlencode

from markupsafe import Markup, escape

_THIN: Final = "\N{NARROW NO-BREAK SPACE}"
_NONE: Final = "\N{EN DASH}"
_NB: Final = "\N{NO-BREAK SPACE}"
_UNITS: Final = (("d", 86_400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1))
QUEUE_MODE_NAME: Final = "queue mode"
_MOST_NODES: Final = 2000
_UNFOLDED: Final = 4
_LONG: Final = 50
_OPEN: Final = Markup("<details open><summary>{}{} <i>{}</i></summary>{}<div>{}{}</div></details>")
_FOLDED: Final = Markup("<details><summary>{}{} <i>{}</i></summary>{}<div>{}{}</div></details>")


def count(number: float | None) -> str:
    """A whole number, thousands apart."""
    return _NONE if number is None else f"{round(number):,}".replace(",", _THIN)


def number(value: float | None) -> str:
    """A number with as many digits as say something."""
    if value is None:
        return _NONE
    if value == 0 or value >= 100:
        return count(value)
    return f"{value:.2g}" if value < 1 else f"{value:.1f}".removesuffix(".0")


def span(seconds: float | None) -> str:
    """A stretch of time in its two largest units: `3 h 48 min`."""
    if seconds is None:
        return _NONE
    if seconds < 1:
        return f"{round(seconds * 1000)}{_NB}ms" if seconds > 0 else f"0{_NB}s"
    for unit, length, part, part_length in _UNITS:
        if seconds >= length:
            whole, rest = divmod(int(seconds), length)
            rest //= part_length
            return f"{whole}{_NB}{unit}" + (f"{_NB}{rest}{_NB}{part}" if rest else "")
    return f"{seconds:.0f}{_NB}s"


def fine_span(seconds: float) -> str:
    """The same with tenths of a second below ten of them."""
    return f"{seconds:.1f}{_NB}s" if 1 <= seconds < 10 else span(seconds)


def ago(time: datetime | None, now: datetime | None = None) -> Markup:
    """How long ago, or in how long, with the absolute time in its tooltip."""
    if time is None:
        return escape(_NONE)
    seconds = ((now or datetime.now(UTC)) - time).total_seconds()
    words = "now" if abs(seconds) < 1 else f"{span(seconds)} ago" if seconds > 0 else f"in {span(-seconds)}"
    return stamped(time, words)


def clock(time: datetime | None) -> Markup:
    """The time of day to the second, with the whole of it in its tooltip."""
    return escape(_NONE) if time is None else stamped(time, f"{time.astimezone(UTC):%H:%M:%S}")


def stamped(time: datetime, words: str) -> Markup:
    """Words about a time, the time itself in their tooltip."""
    at = time.astimezone(UTC)
    shown = f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03d} UTC"
    return Markup('<time datetime="{}" title="{}">{}</time>').format(at.isoformat(), shown, words)


def size(octets: float | None) -> str:
    """An amount of memory or disk."""
    if octets is None:
        return _NONE
    for unit, length in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if octets >= length:
            return f"{number(octets / length)}{_NB}{unit}"
    return f"{octets:.0f}{_NB}B"


def plural(amount: float, one: str, many: str | None = None) -> str:
    """An amount with its noun: `1 message`, `2 messages`."""
    return f"{count(amount)}{_NB}{one if amount == 1 else many or one + 's'}"


def group_name(group: str) -> str:
    """A group's name; queue mode has none of its own."""
    return QUEUE_MODE_NAME if group == "__QUEUE_MODE__" else group


def url(path: str, **query: object) -> str:
    """The relative address of a page."""
    given = {name: value for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(given)}" if given else path


def pretty(text: str | None) -> str:
    """JSON text with line breaks; what is no JSON stays as it is."""
    if text is None:
        return ""
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text


def tree(text: str | None) -> Markup:
    """JSON text as a tree that can be folded; what is no JSON, or is very large, stays text."""
    try:
        value = json.loads(text or "null")
        if _nodes(value) <= _MOST_NODES:
            return _branch(value, Markup(""), "", 0)
    except (ValueError, RecursionError):
        pass
    return escape(pretty(text))


def _nodes(value: Any) -> int:
    if not isinstance(value, dict | list):
        return 1
    return 1 + sum(_nodes(each) for each in (value.values() if isinstance(value, dict) else value))


def _branch(value: Any, name: Markup, comma: str, depth: int) -> Markup:
    if not isinstance(value, dict | list) or not value:
        kind = "s" if isinstance(value, str) else "n"
        said = json.dumps(value, ensure_ascii=False)
        return Markup('<div>{}<span class="{}">{}</span>{}</div>').format(name, kind, said, comma)
    pairs = value.items() if isinstance(value, dict) else ((None, each) for each in value)
    inside = Markup("").join(
        _branch(
            each,
            Markup("") if key is None else Markup('<span class="k">{}</span>: ').format(json.dumps(key)),
            "," if place < len(value) else "",
            depth + 1,
        )
        for place, (key, each) in enumerate(pairs, 1)
    )
    begin, end, noun = ("{", "}", "field") if isinstance(value, dict) else ("[", "]", "item")
    shape = _OPEN if depth < _UNFOLDED and len(value) <= _LONG else _FOLDED
    return shape.format(name, begin, plural(len(value), noun), inside, end, comma)


def code(text: str) -> Markup:
    """Words in which what stands between backticks is code."""
    parts = text.split("`")
    said = [Markup("<code>{}</code>").format(part) if place % 2 else escape(part) for place, part in enumerate(parts)]
    return Markup("").join(said)


def facts(text: str | None) -> str:
    """The values of a JSON object in one line: `removed 3 · finished`; yes says its name, no says nothing."""
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return text or ""
    said = [name if value is True else f"{name} {value}" for name, value in found.items() if value not in (False, None)]
    return " · ".join(said)


def moment(milliseconds: int) -> datetime:
    """A time from milliseconds since 1970."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


FILTERS: Final[dict[str, Any]] = {
    "count": count,
    "number": number,
    "span": span,
    "fine": fine_span,
    "ago": ago,
    "clock": clock,
    "size": size,
    "moment": moment,
    "facts": facts,
    "code": code,
    "group": group_name,
    "pretty": pretty,
    "tree": tree,
}
