"""What a pipeline is: a name, what it reads, the options it takes, and one function that does it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Final, Protocol

from queen.spark.errors import SparkError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from queen.spark.lake import Lake

BUILT_IN: Final = (
    "archive", "rollups", "traces", "triage", "skew", "report", "replay", "reconcile", "verify", "compact", "vacuum",
)  # fmt: skip
"""In a module of the same name beside this one."""
ALL: Final = ("archive", "rollups", "traces", "triage", "skew", "report")
"""What `queen pipeline run all` runs, in this order."""
REFERENCE: Final = "env:"
PASSWORD: Final = re.compile(r"(?P<before>://[^:/@\s]*:|[?&\s]password=)[^@&\s]+")
TABLES: Final = ("messages", "deliveries", "dead_letters", "redrives", "workflow_history")


@dataclass(frozen=True, slots=True)
class Period:
    """A length of time, half-open; None is unbounded."""

    start: datetime | None = None
    end: datetime | None = None

    def asked(self) -> dict[str, str | None]:
        """The bounds as a question to the database has them."""
        return {
            "since": self.start.isoformat() if self.start else None,
            "until": self.end.isoformat() if self.end else None,
        }


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to: how many rows, and a few figures that `queen pipeline show` shows."""

    rows: int
    figures: Mapping[str, object] = field(default_factory=dict)


class Progress(Protocol):
    """How far a run is, for whoever watches."""

    def step(self, name: str, done: int, total: int | None) -> None:
        """`done` of `total` (None: not known) of the step called `name` is through."""


class Results(Protocol):
    """Where a run leaves what it found."""

    def write(self, kind: str, rows: DataFrame | Iterable[Mapping[str, object]], key: str) -> int:
        """Store rows; see `Context.write`."""


@dataclass(frozen=True)
class Context:
    """What a pipeline works with.

    `spark` is started when it is first asked for. `lake.read(spark, "messages")` gives the committed rows of a table as
    a frame. `period` is the time asked for, `options` has a value for every option the pipeline declares.
    """

    session: Callable[[], SparkSession]
    url: str
    lake: Lake
    period: Period
    options: Mapping[str, str]
    progress: Progress
    results: Results
    run_id: str = ""
    began: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def spark(self) -> SparkSession:
        """The session to work in."""
        return self.session()

    def write(self, kind: str, frame: DataFrame | Iterable[Mapping[str, object]], key: str) -> int:
        """Store rows of a result kind as JSON, replacing those with the same kind and key; returns how many.

        `key` names the column that tells rows apart, or several, separated by commas: their texts are
        then joined by `/`. Meant for what people look at: thousands of rows, not millions.
        """
        return self.results.write(kind, frame, key)


Entry = Callable[[Context], Outcome]


@dataclass(frozen=True)
class Pipeline:
    """A pipeline: call it with a context, or run it by name with `queen pipeline run`."""

    name: str
    summary: str
    entry: Entry
    reads: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    continuous: bool = False
    """Goes on after what there is now, unless `--once` is given."""
    foreign: bool = False
    """May work on the lake of another database."""
    on_spark: bool = True
    """Works with frames; else it needs no Spark."""
    steady: bool = False
    """Finds the same as before while the tables it reads, its options and its period are the same."""

    def __call__(self, context: Context) -> Outcome:
        """Do it."""
        return self.entry(context)

    def settle(self, given: Mapping[str, str]) -> Mapping[str, str]:
        """The declared options with the values given, those as `env:NAME` from there; refuses what is not declared."""
        for name in given:
            if name not in self.options:
                near = get_close_matches(name, self.options, n=1)
                hint = f" (did you mean {near[0]!r}?)" if near else ""
                allowed = ", ".join(self.options) or "none"
                raise SparkError(
                    "INVALID_OPTION", f"pipeline {self.name!r} has no option {name!r}{hint}; its options: {allowed}"
                )
        return MappingProxyType({**self.options, **{name: looked_up(name, value) for name, value in given.items()}})


def looked_up(name: str, value: str) -> str:
    """The value of an option; `env:NAME` stands for what the environment has under that name, such as a password."""
    if not value.startswith(REFERENCE):
        return value
    found = os.environ.get(value.removeprefix(REFERENCE))
    if found is None:
        raise SparkError("INVALID_OPTION", f"option {name!r} is {value!r}, but the environment has no such name")
    return found


def without_passwords(options: Mapping[str, str]) -> dict[str, str]:
    """Options as they may be kept and shown."""
    return {name: PASSWORD.sub(r"\g<before>***", value) for name, value in options.items()}


def pipeline(
    name: str,
    *,
    summary: str = "",
    reads: Iterable[str] = (),
    options: Mapping[str, str] | None = None,
    continuous: bool = False,
    foreign: bool = False,
    on_spark: bool = True,
    steady: bool = False,
) -> Callable[[Entry], Pipeline]:
    """Make a function over DataFrames a pipeline that `queen pipeline run` finds.

    @queen.pipeline("busiest", summary="Busiest queues", reads=["messages"], options={"top": "10"})
    def busiest(context):
        counted = context.lake.read(context.spark, "messages").groupBy("queue").count()
        rows = context.write("queues", counted.orderBy("count", ascending=False).limit(10), key="queue")
        return Outcome(rows)
    """
    if not name or "/" in name or ":" in name:
        raise ValueError(f"a pipeline's name must be a word without / and :, not {name!r}")
    unknown = [table for table in reads if table not in TABLES]
    if unknown:
        raise ValueError(f"pipeline {name!r} cannot read {unknown[0]!r}; a lake has {', '.join(TABLES)}")

    def made(entry: Entry) -> Pipeline:
        said = summary or (entry.__doc__ or name).strip().splitlines()[0]
        return Pipeline(name, said, entry, tuple(reads), dict(options or {}), continuous, foreign, on_spark, steady)

    return made


def available() -> list[Pipeline]:
    """The pipelines that come with Queen."""
    return [find(name) for name in there()]


def there() -> list[str]:
    """The names of the pipelines that come with Queen."""
    return [name for name in BUILT_IN if find_spec(f"{__package__}.{name}")]


def find(name: str) -> Pipeline:
    """A pipeline by name, or a user's own as `package.module:function`, `file.py` or `file.py:function`."""
    place, colon, wanted = name.partition(":")
    if place.endswith(".py"):
        return chosen(load_file(Path(place)), name, wanted)
    if colon:
        return chosen(load_module(place), name, wanted)
    if name in there():
        return chosen(import_module(f"{__package__}.{name}"), name, name)
    near = get_close_matches(name, [*there(), "all"], n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise SparkError(
        "PIPELINE_NOT_FOUND",
        f"there is no pipeline {name!r}; {hint}there are {', '.join(there())}, all, and your own as file.py or "
        "package.module:function",
    )


def load_module(name: str) -> ModuleType:
    """A module by its dotted name."""
    try:
        return import_module(name)
    except ImportError as error:
        raise SparkError("PIPELINE_NOT_FOUND", f"cannot load the module {name!r}: {error}") from error


def load_file(path: Path) -> ModuleType:
    """A module from a file."""
    spec = spec_from_file_location(path.stem, path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise SparkError("PIPELINE_NOT_FOUND", f"there is no file {str(path)!r} with a pipeline")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def chosen(module: ModuleType, name: str, wanted: str) -> Pipeline:
    """The pipeline of a module: the one wanted, or the only one."""
    found = {key: value for key, value in vars(module).items() if isinstance(value, Pipeline)}
    fitting = [value for key, value in found.items() if wanted in ("", key, value.name)]
    if len(fitting) == 1:
        return fitting[0]
    names = ", ".join(sorted(value.name for value in found.values())) or "none"
    raise SparkError(
        "PIPELINE_NOT_FOUND", f"{name!r} must name one pipeline made by @queen.pipeline; the module has {names}"
    )
