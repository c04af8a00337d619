from __future__ import annotations

import subprocess
import sys

from tests.support.tree import ROOT


def test_the_settings_page_is_current() -> None:
    script = ROOT / "scripts" / "settings_page.py"
    done = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
