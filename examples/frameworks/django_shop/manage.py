"""Django: `python manage.py migrate`, `python manage.py worker`, `python manage.py order anna 1`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from django.core.management import execute_from_command_line

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where tasks.py is
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")
execute_from_command_line(sys.argv)
