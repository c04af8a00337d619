"""The dashboard: pages served by the broker, each with a JSON twin and a URL that can be shared."""
