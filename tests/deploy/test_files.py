"""The files to deploy with mean what they say."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml

from queen import __version__, config
from queen.server.app import gather
from tests.support.tree import ROOT

DEPLOY = ROOT / "deploy"


def documents(name: str) -> list[Any]:
    return list(yaml.safe_load_all((DEPLOY / name).read_text()))


def known_variables() -> set[str]:
    return {setting.variable for setting in config.settings()}


def test_the_broker_of_the_compose_file_is_for_this_machine_and_asks_for_tokens() -> None:
    (compose,) = documents("compose.yaml")
    broker = compose["services"]["broker"]
    assert all(port.startswith("127.0.0.1:") for port in broker["ports"])
    assert "ports" not in compose["services"]["postgres"]
    assert set(broker["environment"]) <= known_variables()
    assert broker["environment"]["QUEEN_JWT_ENABLED"] == "true"
    assert (broker["read_only"], broker["cap_drop"]) == (True, ["ALL"])
    limit = config.Settings().shutdown_limit
    assert int(broker["stop_grace_period"].rstrip("s")) > limit
    text = (DEPLOY / "compose.yaml").read_text()
    assert re.findall(r"\$\{\w+:-", text) == [], "no password has a default"
    assert all(":?" in found for found in re.findall(r"\$\{[^}]+\}", text))
    assert all(re.search(r":\d+(\.\d+)+$", service["image"]) for service in compose["services"].values())


def test_secrets_are_made_once_and_for_the_owner_only(tmp_path: Path) -> None:
    script = shutil.copy(DEPLOY / "secrets.sh", tmp_path)
    assert subprocess.run([script], check=True, capture_output=True).returncode == 0
    file = tmp_path / ".env"
    first = file.read_text()
    values = dict(line.split("=") for line in first.splitlines())
    (compose,) = documents("compose.yaml")
    needed = set(re.findall(r"\$\{(\w+)", yaml.safe_dump(compose)))
    assert set(values) == needed
    assert all(re.fullmatch(r"[0-9a-f]{64}", value) for value in values.values())
    assert len(set(values.values())) == len(values)
    assert file.stat().st_mode & 0o077 == 0
    subprocess.run([script], check=True, capture_output=True)
    assert file.read_text() == first


def pod() -> Any:
    (found,) = (one for one in documents("kubernetes.yaml") if one["kind"] == "StatefulSet")
    return found["spec"]["template"]["spec"]


def test_kubernetes_ships_no_secret_and_runs_nothing_as_root() -> None:
    assert "Secret" not in {one["kind"] for one in documents("kubernetes.yaml")}
    spec, (container,) = pod(), pod()["containers"]
    assert (spec["securityContext"]["runAsNonRoot"], spec["securityContext"]["runAsUser"]) == (True, 10001)
    inside = container["securityContext"]
    assert (inside["readOnlyRootFilesystem"], inside["allowPrivilegeEscalation"]) == (True, False)
    assert inside["capabilities"] == {"drop": ["ALL"]}
    assert {mount["mountPath"] for mount in container["volumeMounts"]} == {"/var/lib/queen", "/tmp"}
    variables = {variable["name"]: variable.get("value") for variable in container["env"]}
    assert set(variables) <= known_variables()
    assert variables["QUEEN_JWT_ENABLED"] == "true"
    assert container["image"] == f"queen:{__version__}"


def test_the_probes_ask_for_paths_that_are_there_and_open() -> None:
    public = {route.path for route in gather() if route.role == "public"}
    (container,) = pod()["containers"]
    paths = {name: container[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "liveness", "readiness")}
    assert set(paths.values()) <= public
    assert (paths["liveness"], paths["readiness"]) == ("/health/live", "/health/accepting")
    asked = re.findall(r"127\.0\.0\.1:6632(/[\w/]+)", (DEPLOY / "Dockerfile").read_text())
    assert asked == ["/health/accepting"]


def test_a_stop_has_time_and_not_all_stop_at_once() -> None:
    (container,) = pod()["containers"]
    pause = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    assert pod()["terminationGracePeriodSeconds"] > pause + config.Settings().shutdown_limit
    (budget,) = (one for one in documents("kubernetes.yaml") if one["kind"] == "PodDisruptionBudget")
    (brokers,) = (one for one in documents("kubernetes.yaml") if one["kind"] == "StatefulSet")
    assert budget["spec"]["selector"] == brokers["spec"]["selector"]
    assert budget["spec"]["maxUnavailable"] < brokers["spec"]["replicas"]


def test_the_image_is_pinned_and_runs_as_a_user() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    assert re.search(r"^ARG PYTHON=python:\d+\.\d+\.\d+-slim", text, re.MULTILINE)
    assert set(re.findall(r"^FROM (\S+)", text, re.MULTILINE)) == {"${PYTHON}"}
    assert text.rindex("USER 10001") > text.rindex("FROM")
    variables = set(re.findall(r"^\s*(?:ENV )?(QUEEN_\w+)=", text, re.MULTILINE))
    assert variables <= known_variables()
