"""The least a Django project needs. DATABASE_URL is its database."""

from __future__ import annotations

import os

from psycopg.conninfo import conninfo_to_dict

_parts = conninfo_to_dict(os.environ["DATABASE_URL"])
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": _parts["dbname"],
        "USER": _parts.get("user"),
        "PASSWORD": _parts.get("password"),
        "HOST": _parts.get("host"),
        "PORT": _parts.get("port"),
    }
}
INSTALLED_APPS = ["shop"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
