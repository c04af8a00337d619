from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

import queen
from tests.support.tree import ROOT


@pytest.mark.parametrize(
    "script", ["sync_client.py", "cli_page.py", "durable_page.py", "sql_page.py", "options_page.py"]
)
def test_what_is_written_by_a_script_is_current(script: str) -> None:
    command = [sys.executable, str(ROOT / "scripts" / script), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_exported_names_are_importable_and_documented() -> None:
    for name in queen.__all__:
        assert getattr(queen, name).__doc__, name
    assert set(queen.__all__) <= set(dir(queen))
    assert sorted(queen.__all__, key=lambda name: (not name[0].isupper(), name)) == queen.__all__


def test_nothing_else_is_exported() -> None:
    with pytest.raises(AttributeError):
        _ = queen.nonsense  # type: ignore[attr-defined]


def test_importing_queen_loads_no_driver() -> None:
    code = "import queen, sys; sys.exit('asyncpg' in sys.modules or 'httpx2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_twin_has_every_public_call() -> None:
    for module, names in {"client": ["Client"], "admin": ["Queues", "Groups", "DeadLetters"]}.items():
        for name in names:
            ours = vars(getattr(import_module(f"queen.client.{module}"), name))
            twin = vars(getattr(import_module(f"queen.client._sync.{module}"), name))
            public = {key for key in ours if not key.startswith("_")} - {
                "pop_request",
                "push_prepared",
                "run_consumers",
            }
            assert public <= set(twin)
