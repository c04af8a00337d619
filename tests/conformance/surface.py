# mypy: ignore-errors
"""The public methods of the installed client, found by looking, and a record of which were called.

Runs in the client's own environment: `queen` here is the published package.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
import re

import queen


def classes() -> list[type]:
    """What the package exports, and what the methods of those return, and so on."""
    for module in pkgutil.walk_packages(queen.__path__, "queen."):
        importlib.import_module(module.name)
    by_name = {
        kind.__name__: kind
        for name, module in importlib.sys.modules.items()
        if name.startswith("queen")
        for kind in vars(module).values()
        if inspect.isclass(kind) and kind.__module__.startswith("queen") and not kind.__name__.startswith("_")
    }
    found: list[type] = []
    ahead = [kind for name in queen.__all__ if inspect.isclass(kind := getattr(queen, name)) and is_plain(kind)]
    while ahead:
        kind = ahead.pop(0)
        if kind in found:
            continue
        found.append(kind)
        for member in methods(kind).values():
            said = str(inspect.signature(member).return_annotation)
            ahead += [by_name[word] for word in re.findall(r"\w+", said) if word in by_name and is_plain(by_name[word])]
    return found


def is_plain(kind: type) -> bool:
    """A class with behaviour, as opposed to the shape of a dictionary or an error."""
    return not issubclass(kind, dict | BaseException) and not getattr(kind, "_is_protocol", False)


def methods(kind: type) -> dict[str, object]:
    """Public methods and properties of a class, by name."""
    found = {}
    for name, member in vars(kind).items():
        function = getattr(member, "fget", None) or getattr(member, "__func__", None) or member
        if not name.startswith("_") and inspect.isfunction(function):
            found[name] = function
    return found


def functions() -> list[str]:
    """Functions the package exports."""
    return [name for name in queen.__all__ if inspect.isfunction(getattr(queen, name))]


def public() -> list[str]:
    """Every public method and function, as `Class.method` or `function`."""
    return [f"{kind.__name__}.{name}" for kind in classes() for name in methods(kind)] + functions()


def record(called: set[str]) -> None:
    """Note from now on what is called."""
    for kind in classes():
        for name, function in methods(kind).items():
            member = vars(kind)[name]
            noting = note(called, f"{kind.__name__}.{name}", function)
            if isinstance(member, property):
                setattr(kind, name, property(noting))
            elif isinstance(member, classmethod | staticmethod):
                setattr(kind, name, type(member)(noting))
            else:
                setattr(kind, name, noting)
    for name in functions():
        setattr(queen, name, note(called, name, getattr(queen, name)))


def note(called: set[str], name: str, function: object) -> object:
    @functools.wraps(function)
    def noting(*args, **options):
        called.add(name)
        return function(*args, **options)

    return noting
