"""Every setting of Queen: its default, what it allows, and where it may come from.

Defaults give way to a TOML file, the file to the environment, the environment to flags. The names
are the fields of `Settings`; in the environment `port` is `QUEEN_PORT`. Names that Queen 0.15 read
are accepted too; where they counted milliseconds they still do.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints
from urllib.parse import quote, urlsplit

import msgspec
from msgspec import Meta, Struct
from msgspec.inspect import (
    BoolType,
    CustomType,
    FloatType,
    IntType,
    LiteralType,
    Metadata,
    NoneType,
    StructType,
    Type,
    UnionType,
    VarTupleType,
    type_info,
)

MILLISECONDS = 0.001
FILE = "queen.toml"


class ConfigError(ValueError):
    """A setting cannot be used; the message names it and says what is allowed."""


def _set(
    description: str,
    *aliases: str,
    scale: float = 1,
    secret: bool = False,
    ge: float | None = None,
    le: float | None = None,
) -> Meta:
    extra = {"aliases": aliases, "scale": scale, "secret": secret}
    return Meta(description=description, extra=extra, ge=ge, le=le)


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, repr_omit_defaults=True):
    """How one Queen process behaves. Times are seconds, sizes are bytes."""

    host: Annotated[str, _set("Address the broker listens on; 0.0.0.0 for all.", "HOST")] = "127.0.0.1"
    port: Annotated[int, _set("Port the broker listens on.", "PORT", ge=1, le=65535)] = 6632
    workers: Annotated[int, _set("Broker processes, all on the same port.", "NUM_WORKERS", ge=1, le=64)] = 1
    shutdown_limit: Annotated[float, _set("How long a stopping broker may finish what it began.", ge=0, le=3600)] = 30.0
    body_limit: Annotated[int, _set("Largest request body; more is answered 413.", ge=1024)] = 16 * 2**20
    pop_byte_limit: Annotated[
        int,
        _set("Most bytes of payloads in one pop; the first message comes whatever its size.", ge=1024, le=2**31 - 1),
    ] = 16 * 2**20
    header_limit: Annotated[int, _set("Largest head of a request; more is answered 431.", ge=1024)] = 64 * 2**10
    head_timeout: Annotated[float, _set("How long the head of a request may take to arrive.", ge=0.1, le=300)] = 10.0
    answer_timeout: Annotated[
        float, _set("How long a caller may take to read an answer before it is hung up on.", ge=1, le=86_400)
    ] = 300.0
    connection_limit: Annotated[int, _set("Most connections of one broker process.", ge=1)] = 16_384
    batch_limit: Annotated[int, _set("Most messages in one push, pop or ack.", ge=1, le=100_000)] = 10_000
    cors_origins: Annotated[
        tuple[str, ...],
        _set("Origins browsers may call from; * for any. Unless set, any with tokens, none without.", "CORS_ORIGINS"),
    ] = ()
    allow_anonymous: Annotated[bool, _set("Serve without tokens on an address that other machines can reach.")] = False
    tls_certificate: Annotated[Path | None, _set("Certificate chain in PEM; with it the broker speaks TLS.")] = None
    tls_key: Annotated[Path | None, _set("Private key of the certificate in PEM.")] = None
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], _set("Least severity that is logged.", "LOG_LEVEL")
    ] = "info"
    log_format: Annotated[
        Literal["auto", "console", "json"], _set("Shape of log lines; auto is console on a terminal.", "LOG_FORMAT")
    ] = "auto"

    data_dir: Annotated[Path, _set("Directory of the embedded PostgreSQL and of the disk buffer.")] = Path(".queen")
    buffer_dir: Annotated[
        Path | None, _set("Directory of the disk buffer; `buffer` in data_dir unless set.", "FILE_BUFFER_DIR")
    ] = None
    buffer_limit: Annotated[
        int, _set("Most bytes in the disk buffer; pushes beyond are answered 503 until it is drained.", ge=2**20)
    ] = 4 * 2**30
    buffer_age_limit: Annotated[
        float, _set("How long a message may wait in the disk buffer before it takes no more.", ge=1)
    ] = 86_400.0
    database_url: Annotated[
        str | None, _set("PostgreSQL to use, postgresql://...; the embedded one unless set.", secret=True)
    ] = None
    embedded_port: Annotated[
        int, _set("Loopback TCP port of the embedded PostgreSQL; 0 for none, only its socket.", ge=0, le=65535)
    ] = 0
    pool_size: Annotated[int, _set("Database connections per broker process.", "DB_POOL_SIZE", ge=2, le=1000)] = 10
    pooler: Annotated[
        Literal["session", "transaction"],
        _set("What stands before PostgreSQL: transaction for a pooler in transaction mode, else session."),
    ] = "session"
    listen: Annotated[bool, _set("Wake waiting pops by notification; without it they only poll.")] = True
    listen_url: Annotated[
        str | None, _set("Direct address for notifications when database_url is a pooler.", secret=True)
    ] = None

    default_lease: Annotated[float, _set("Lease of a queue that sets none.", ge=1, le=86_400)] = 300.0
    default_timeout: Annotated[
        float, _set("How long a waiting pop waits unless it says.", "DEFAULT_TIMEOUT", scale=MILLISECONDS, ge=0, le=300)
    ] = 30.0
    default_batch: Annotated[
        int, _set("Messages a pop returns unless it says.", "DEFAULT_BATCH_SIZE", ge=1, le=100_000)
    ] = 1
    default_subscription: Annotated[
        Literal["all", "new"], _set("Where a new consumer group starts unless it says.", "DEFAULT_SUBSCRIPTION_MODE")
    ] = "all"
    encryption_keys: Annotated[
        tuple[str, ...],
        _set("Keys of 64 hex digits, each as KEY or ID:KEY; the first seals.", "QUEEN_ENCRYPTION_KEY", secret=True),
    ] = ()

    retention_interval: Annotated[
        float, _set("Time between retention runs.", "RETENTION_INTERVAL", scale=MILLISECONDS, ge=0.1, le=86_400)
    ] = 300.0
    eviction_interval: Annotated[
        float, _set("Time between eviction runs.", "EVICTION_INTERVAL", scale=MILLISECONDS, ge=0.1, le=86_400)
    ] = 60.0
    stats_interval: Annotated[
        float, _set("Time between runs that count.", "STATS_INTERVAL_MS", scale=MILLISECONDS, ge=0.1, le=3600)
    ] = 10.0
    partition_cleanup_days: Annotated[
        int, _set("Days without activity after which an empty partition goes.", "PARTITION_CLEANUP_DAYS", ge=1)
    ] = 30
    group_expiry_days: Annotated[
        int,
        _set("Days without a pop after which a group is forgotten and no longer holds back retention; 0: never.", ge=0),
    ] = 0
    metrics_queues: Annotated[
        int,
        _set(
            "Queues with a label of their own in the metrics, the oldest first; the rest share `other`.",
            ge=0,
            le=10_000,
        ),
    ] = 200
    metrics_retention_days: Annotated[
        int,
        _set(
            "Days that statistics, traces and the history of retention are kept; statistics by the hour 35 at least.",
            "METRICS_RETENTION_DAYS",
            ge=1,
        ),
    ] = 90
    audit_retention_days: Annotated[int, _set("Days that the audit log is kept.", ge=1)] = 365

    jwt_enabled: Annotated[bool, _set("Ask every caller for a token.", "JWT_ENABLED")] = False
    jwt_algorithm: Annotated[
        Literal["auto", "HS256", "RS256", "ES256", "EdDSA"],
        _set("How tokens are signed; auto goes by the key that is set.", "JWT_ALGORITHM"),
    ] = "auto"
    jwt_secret: Annotated[str | None, _set("Shared secret for HS256.", "JWT_SECRET", secret=True)] = None
    jwt_public_key: Annotated[str | None, _set("Public key in PEM for the others.", "JWT_PUBLIC_KEY")] = None
    jwt_jwks_url: Annotated[str | None, _set("Where to fetch public keys from.", "JWT_JWKS_URL")] = None
    jwt_issuer: Annotated[str | None, _set("Issuer a token must name.", "JWT_ISSUER")] = None
    jwt_audience: Annotated[str | None, _set("Audience a token must name.", "JWT_AUDIENCE")] = None
    jwt_skip_paths: Annotated[tuple[str, ...], _set("Paths that need no token.", "JWT_SKIP_PATHS")] = (
        "/health",
        "/metrics",
        "/metrics/prometheus",
        "/",
    )

    def __post_init__(self) -> None:
        for key in self.encryption_keys:
            digits = key.rpartition(":")[2]
            if len(digits) != 64 or set(digits.lower()) - set("0123456789abcdef"):
                raise ValueError("each encryption key must be 64 hex digits, with or without `id:` before them")
        for url in (self.database_url, self.listen_url):
            if url is not None and not (url.startswith(("postgresql://", "postgres://")) and _is_url(url)):
                raise ValueError("database_url and listen_url must start with postgresql:// and be addresses")
        if self.jwt_enabled and not (self.jwt_secret or self.jwt_public_key or self.jwt_jwks_url):
            raise ValueError("jwt_enabled needs one of jwt_secret, jwt_public_key, jwt_jwks_url")
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("tls_certificate and tls_key go together")
        if self.jwt_algorithm == "HS256" and self.jwt_enabled and not self.jwt_secret:
            raise ValueError("jwt_algorithm HS256 needs jwt_secret")
        if self.default_batch > self.batch_limit:
            raise ValueError(f"default_batch must not be above batch_limit ({self.batch_limit})")

    def __repr__(self) -> str:
        shown = (f"{name}={value!r}" for name, value in self.public().items())
        return f"Settings({', '.join(shown)})"

    @property
    def notification_url(self) -> str | None:
        """Where to listen for notifications; None when that must not or cannot be done."""
        if not self.listen:
            return None
        return self.listen_url or (self.database_url if self.pooler == "session" else None)

    @property
    def buffer_path(self) -> Path:
        """The directory of the disk buffer."""
        return self.buffer_dir or self.data_dir / "buffer"

    def public(self) -> dict[str, Any]:
        """All settings, with `***` in place of secrets."""
        values = msgspec.structs.asdict(self)
        return {f.name: "***" if f.secret and values[f.name] else values[f.name] for f in settings()}


def _is_url(text: str) -> bool:
    try:
        return "," in urlsplit(text).netloc or urlsplit(text).port != 0
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class Setting:
    """One field of `Settings` as the documentation shows it."""

    name: str
    default: object
    allowed: str
    annotation: object
    description: str
    aliases: tuple[str, ...]
    scale: float
    secret: bool

    @property
    def variable(self) -> str:
        """Its name in the environment."""
        return f"QUEEN_{self.name.upper()}"


def settings() -> list[Setting]:
    """Every setting, in the order of the class."""
    hints = get_type_hints(Settings, include_extras=True)
    info = type_info(Settings)
    assert isinstance(info, StructType)
    found: list[Setting] = []
    for field in info.fields:
        assert isinstance(field.type, Metadata)
        found.append(
            Setting(
                name=field.name,
                default=field.default,
                allowed=_allowed(field.type.type),
                annotation=hints[field.name],
                **(field.type.extra_json_schema or {}),
                **(field.type.extra or {}),
            )
        )
    return found


def load(
    file: Path | None = None, environment: Mapping[str, str] | None = None, flags: Mapping[str, object] | None = None
) -> Settings:
    """Read all sources and check them.

    `file` is what QUEEN_CONFIG names unless given, else `queen.toml` if there is one. A flag that is
    None was not given. Raises ConfigError.
    """
    environment = os.environ if environment is None else environment
    known = {setting.name: setting for setting in settings()}
    values: dict[str, object] = {}
    for source, key, value in [
        *_from_file(file, environment, known),
        *_from_environment(environment, known),
        *_from_flags(flags or {}, known),
    ]:
        values[key] = _convert(known[key], source, value)
    try:
        return Settings(**values)  # type: ignore[arg-type]
    except ValueError as error:
        raise ConfigError(str(error)) from error


Found = tuple[str, str, object]


def _from_file(file: Path | None, environment: Mapping[str, str], known: Mapping[str, Setting]) -> Iterator[Found]:
    wanted = file or (Path(environment["QUEEN_CONFIG"]) if environment.get("QUEEN_CONFIG") else None)
    path = wanted or Path(FILE)
    if wanted is None and not path.exists():
        return
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the configuration file {path}: {error}") from error
    for key, value in table.items():
        if key not in known:
            near = get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"allowed are {', '.join(known)}"
            raise ConfigError(f"{path}: there is no setting {key}; {hint}")
        yield f"{path}: {key}", key, value


def _from_environment(environment: Mapping[str, str], known: Mapping[str, Setting]) -> Iterator[Found]:
    if url := _url_from_parts(environment):
        yield "PG_HOST", "database_url", url
    for setting in known.values():
        for name in reversed((setting.variable, *setting.aliases)):
            value: object = environment.get(name)
            if value == "" or value is None:
                continue
            if name != setting.variable and setting.scale != 1:
                value = _scaled(name, str(value), setting.scale)
            yield name, setting.name, value


def _from_flags(flags: Mapping[str, object], known: Mapping[str, Setting]) -> Iterator[Found]:
    for key, value in flags.items():
        if value is not None:
            yield f"--{known[key].name.replace('_', '-')}", key, value


def _url_from_parts(environment: Mapping[str, str]) -> str | None:
    """The address that Queen 0.15's PG_HOST, PG_PORT, PG_USER, PG_PASSWORD and PG_DB describe."""
    host = environment.get("PG_HOST")
    if not host:
        return None
    user = quote(environment.get("PG_USER") or "postgres", safe="")
    password = quote(environment.get("PG_PASSWORD") or "", safe="")
    database = quote(environment.get("PG_DB") or "postgres", safe="")
    login = f"{user}:{password}" if password else user
    return f"postgresql://{login}@{host}:{environment.get('PG_PORT') or 5432}/{database}"


def _scaled(name: str, value: str, scale: float) -> float:
    try:
        return float(value) * scale
    except ValueError:
        raise ConfigError(f"{name}={value!r}: allowed is a number of milliseconds") from None


def _convert(setting: Setting, source: str, value: object) -> object:
    if isinstance(value, str) and isinstance(setting.default, tuple):
        value = tuple(part.strip() for part in value.split(",") if part.strip())
    if isinstance(value, str) and setting.name == "log_level":
        value = {"warn": "warning"}.get(value.lower(), value.lower())
    try:
        return msgspec.convert(value, setting.annotation, strict=False, dec_hook=_hook)
    except (msgspec.ValidationError, TypeError):
        shown = "***" if setting.secret else repr(value)
        raise ConfigError(f"{source}={shown}: allowed is {setting.allowed}") from None


def _hook(kind: type, value: object) -> object:
    if isinstance(value, kind):
        return value
    return kind(value)


def _allowed(kind: Type) -> str:
    match kind:
        case UnionType(types=types):
            return " or ".join(_allowed(part) for part in types if not isinstance(part, NoneType)) + ", or nothing"
        case LiteralType(values=values):
            return f"one of {', '.join(map(str, sorted(values, key=str)))}"
        case BoolType():
            return "true or false"
        case VarTupleType():
            return "a list, in the environment separated by commas"
        case CustomType():
            return "a path"
        case IntType(ge=low, le=high) | FloatType(ge=low, le=high):
            word = "a whole number" if isinstance(kind, IntType) else "a number"
            return f"{word} from {low}" + (f" to {high}" if high is not None else " up")
        case _:
            return "a text"
