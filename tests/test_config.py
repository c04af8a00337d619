from __future__ import annotations

from pathlib import Path

import pytest

from queen import config
from queen.config import ConfigError, Settings

KEY = "0123456789abcdef" * 4


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_defaults_need_nothing() -> None:
    assert config.load(environment={}) == Settings()
    assert (Settings().port, Settings().data_dir, Settings().database_url) == (6632, Path(".queen"), None)


def test_flags_beat_environment_beats_file_beats_default(elsewhere: Path) -> None:
    file = elsewhere / "queen.toml"
    file.write_text("port = 1001\nhost = 'file'\npool_size = 21\n")
    environment = {"QUEEN_PORT": "1002", "QUEEN_HOST": "env"}
    settings = config.load(environment=environment, flags={"port": 1003, "host": None})
    assert (settings.port, settings.host, settings.pool_size, settings.workers) == (1003, "env", 21, 1)


def test_another_file_is_read_when_named(elsewhere: Path) -> None:
    (elsewhere / "queen.toml").write_text("port = 1")
    (elsewhere / "other.toml").write_text("port = 2")
    assert config.load(environment={"QUEEN_CONFIG": "other.toml"}).port == 2
    assert config.load(elsewhere / "queen.toml", environment={"QUEEN_CONFIG": "other.toml"}).port == 1


def test_queen_0_15_names_are_understood() -> None:
    settings = config.load(
        environment={
            "PORT": "7000",
            "HOST": "0.0.0.0",
            "DB_POOL_SIZE": "50",
            "LOG_LEVEL": "WARN",
            "DEFAULT_TIMEOUT": "1500",
            "DEFAULT_BATCH_SIZE": "7",
            "RETENTION_INTERVAL": "5000",
            "EVICTION_INTERVAL": "250",
            "QUEEN_ENCRYPTION_KEY": KEY,
            "JWT_ENABLED": "true",
            "JWT_ALGORITHM": "HS256",
            "JWT_SECRET": "s",
            "JWT_SKIP_PATHS": "/a, /b",
        }
    )
    assert (settings.port, settings.host, settings.pool_size, settings.log_level) == (7000, "0.0.0.0", 50, "warning")
    assert (settings.default_timeout, settings.default_batch) == (1.5, 7)
    assert (settings.retention_interval, settings.eviction_interval) == (5.0, 0.25)
    assert settings.encryption_keys == (KEY,)
    assert (settings.jwt_enabled, settings.jwt_secret, settings.jwt_skip_paths) == (True, "s", ("/a", "/b"))


def test_our_names_beat_the_old_ones() -> None:
    environment = {"QUEEN_PORT": "1", "PORT": "2", "QUEEN_RETENTION_INTERVAL": "3", "RETENTION_INTERVAL": "4000"}
    settings = config.load(environment=environment)
    assert (settings.port, settings.retention_interval) == (1, 3.0)


def test_parts_of_a_database_address_are_put_together() -> None:
    parts = {"PG_HOST": "db", "PG_PORT": "6000", "PG_USER": "me", "PG_PASSWORD": "a/b@c", "PG_DB": "shop"}
    assert config.load(environment=parts).database_url == "postgresql://me:a%2Fb%40c@db:6000/shop"
    assert config.load(environment={"PG_HOST": "db"}).database_url == "postgresql://postgres@db:5432/postgres"
    whole = {**parts, "QUEEN_DATABASE_URL": "postgresql://other/x"}
    assert config.load(environment=whole).database_url == "postgresql://other/x"


def test_an_empty_variable_is_no_value() -> None:
    assert config.load(environment={"QUEEN_PORT": "", "QUEEN_DATABASE_URL": ""}) == Settings()


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"QUEEN_PORT": "none"}, "QUEEN_PORT='none': allowed is a whole number from 1 to 65535"),
        ({"PORT": "70000"}, "PORT='70000': allowed is a whole number from 1 to 65535"),
        ({"LOG_LEVEL": "loud"}, "LOG_LEVEL='loud': allowed is one of debug, error, info, warning"),
        ({"QUEEN_LISTEN": "maybe"}, "QUEEN_LISTEN='maybe': allowed is true or false"),
        ({"RETENTION_INTERVAL": "soon"}, "RETENTION_INTERVAL='soon': allowed is a number of milliseconds"),
        ({"QUEEN_DATABASE_URL": "mysql://x"}, "database_url and listen_url must start with postgresql://"),
        ({"QUEEN_ENCRYPTION_KEYS": "a:123"}, "each encryption key must be 64 hex digits"),
        ({"QUEEN_JWT_ENABLED": "1"}, "jwt_enabled needs one of jwt_secret, jwt_public_key, jwt_jwks_url"),
        ({"QUEEN_DEFAULT_BATCH": "9", "QUEEN_BATCH_LIMIT": "8"}, "default_batch must not be above batch_limit (8)"),
    ],
)
def test_a_bad_value_is_named_with_what_is_allowed(environment: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config.load(environment=environment)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prot = 1", "there is no setting prot; did you mean port?"),
        ("zzz = 1", "there is no setting zzz; allowed are host, port"),
        ("port = 'x'", "queen.toml: port='x': allowed is a whole number"),
        ("port = ", "cannot read the configuration file queen.toml"),
    ],
)
def test_a_bad_file_is_refused(elsewhere: Path, text: str, message: str) -> None:
    (elsewhere / "queen.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        config.load(environment={})
    assert message in str(caught.value)


def test_a_missing_file_is_refused_when_asked_for() -> None:
    with pytest.raises(ConfigError, match=r"cannot read the configuration file nowhere\.toml"):
        config.load(Path("nowhere.toml"), environment={})


def test_secrets_are_never_shown() -> None:
    settings = config.load(
        environment={
            "QUEEN_DATABASE_URL": "postgresql://u:hush@h/d",
            "JWT_SECRET": "hush",
            "QUEEN_ENCRYPTION_KEYS": KEY,
        }
    )
    assert "hush" not in repr(settings)
    assert KEY not in repr(settings)
    assert settings.public()["database_url"] == "***"
    with pytest.raises(ConfigError) as caught:
        config.load(environment={}, flags={"jwt_secret": 5, "database_url": ["hush"]})
    assert "hush" not in str(caught.value)


def test_notifications_need_a_direct_address() -> None:
    url = "postgresql://h/d"
    assert Settings(database_url=url).notification_url == url
    assert Settings(database_url=url, listen=False).notification_url is None
    assert Settings(database_url=url, pooler="transaction").notification_url is None
    assert Settings(database_url=url, pooler="transaction", listen_url=url + "2").notification_url == url + "2"


def test_settings_stay_few_and_described() -> None:
    found = config.settings()
    assert len(found) <= 48
    assert all(setting.description.endswith(".") and setting.allowed for setting in found)
    names = [name for setting in found for name in (setting.variable, *setting.aliases)]
    assert len(names) == len(set(names))
