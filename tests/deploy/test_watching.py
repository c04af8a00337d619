"""The dashboard and the alert rules ask for metrics that a broker has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import httpx2
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.server.calls import ack_batch, pop, push
from tests.server.running import run_broker
from tests.support.tree import ROOT

_WORDS = re.compile(r"queen_[a-z_]+")
_GROUPING = re.compile(r"by \(([^)]*)\)")


def expressions() -> Iterator[str]:
    """Every expression of both files."""
    for group in yaml.safe_load((ROOT / "deploy" / "alerts.yaml").read_text())["groups"]:
        for rule in group["rules"]:
            assert {"alert", "expr", "labels", "annotations"} <= set(rule)
            yield rule["expr"]
    for panel in json.loads((ROOT / "deploy" / "grafana.json").read_text())["panels"]:
        for target in panel["targets"]:
            yield target["expr"]


def test_every_metric_they_name_is_there_with_its_labels(database: str, tmp_path: Path) -> None:
    with run_broker(database, tmp_path) as broker, httpx2.Client(base_url=broker.url, timeout=40) as client:
        push(client, "mail", 1)
        ack_batch(client, pop(client, "mail"))
        client.post("/api/v1/push", json={})
        text = client.get("/metrics/prometheus").text
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    labels: dict[str, set[str]] = {}
    for sample in samples:
        labels.setdefault(sample.name, set()).update(sample.labels)
    declared = set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))
    asked = list(expressions())
    assert len(asked) > 20
    for expression in asked:
        for name in _WORDS.findall(expression):
            assert name in labels or name in declared or name.removesuffix("_total") in declared, name
            for named in _GROUPING.findall(expression):
                if name in labels:
                    assert set(map(str.strip, named.split(","))) <= labels[name], (name, named)
