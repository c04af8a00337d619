"""Pictures of every page of the dashboard, light, dark and narrow: of a demo with pipelines run.

`screenshots.py FOLDER` writes whole pages there, too: to look at.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx2
from playwright.sync_api import Page, sync_playwright

FOLDER = Path(__file__).parent.parent / "docs" / "images" / "dashboard"
VIEWS: dict[str, dict[str, Any]] = {
    "light": {"viewport": {"width": 1280, "height": 860}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1280, "height": 860}, "color_scheme": "dark"},
    "narrow": {"viewport": {"width": 375, "height": 800}, "color_scheme": "light"},
}
OURS = {"x-queen-dashboard": "1"}
QUEEN = [sys.executable, "-m", "queen"]
TALL = {"overview": 1130}


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="queen-", ignore_cleanup_errors=True) as folder:
        port = free_port()
        address = f"http://127.0.0.1:{port}"
        command = [*QUEEN, "serve", "--demo", "--data-dir", folder, "--port", str(port)]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as broker:
            try:
                with httpx2.Client(base_url=address, timeout=30) as client:
                    pages = prepare(client, folder)
                take(address, pages)
            finally:
                broker.terminate()
                broker.wait(60)


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def prepare(client: httpx2.Client, folder: str) -> dict[str, str]:
    """Wait for the shop to be busy, plant what an operator meets, and name the pages."""
    wait_for(client, lambda: client.get("/health").status_code == 200)
    wait_for(client, lambda: page_of(client, "/")["queueCount"] >= 4)
    wait_for(client, lambda: page_of(client, "/workflows")["workflows"])
    plant(client)
    lake = ["--lake", f"{folder}/lake", "--data-dir", folder, "--master", "local[2]"]
    subprocess.run([*QUEEN, "pipeline", "run", "all", "--once", *lake], check=True, timeout=1200)
    dead = page_of(client, "/dead-letters")["deadLetters"][0]
    traces = page_of(client, "/traces")["recent"]
    trace = max(traces, key=lambda each: each["messages"])
    workflow = next(each for each in page_of(client, "/workflows")["workflows"] if each["status"] == "Completed")
    message = httpx2.QueryParams({"partition": dead["partitionId"], "transaction": dead["transactionId"]})
    return {
        "overview": "", "queues": "queues", "queue": "queue?name=payments",
        "configuration": "queue?name=payments&tab=configuration", "partitions": "heat?name=orders",
        "messages": "messages", "message": f"message?{message}", "groups": "groups",
        "group": "group?queue=orders&name=analytics", "dead-letters": "dead-letters",
        "dead-letter": f"dead-letter?id={dead['id']}", "traces": "traces", "trace": f"trace?id={trace['id']}",
        "workflows": "workflows", "workflow": f"workflow?id={workflow['id']}", "schedules": "schedules",
        "pipelines": "pipelines", "pipeline": "pipeline?name=rollups", "skew": "pipeline?name=skew",
        "triage": "pipeline?name=triage", "system": "system", "postgres": "system?tab=postgres",
        "settings": "system?tab=settings", "audit": "system?tab=audit", "transfer": "transfer",
    }  # fmt: skip


def plant(client: httpx2.Client) -> None:
    """A partition held by a message that fails, a growing queue that nobody reads, and a few acts."""
    options = {"retryLimit": 50, "retryDelay": 40_000}
    client.post("/api/v1/configure", json={"queue": "invoices", "namespace": "shop", "options": options})
    items = [{"queue": "invoices", "partition": "customer-0034", "payload": {"invoice": n}} for n in range(25)]
    client.post("/api/v1/push", json={"items": items})
    message = client.get("/api/v1/pop/queue/invoices?consumerGroup=printer").json()["messages"][0]
    names = ("transactionId", "partitionId", "leaseId")
    failed = {"status": "failed", "error": "PrinterJam: tray 2", "consumerGroup": "printer"}
    client.post("/api/v1/ack", json={**{name: message[name] for name in names}, **failed})
    for act, form in (
        ("pause", {"queue": "shipping"}),
        ("resume", {"queue": "shipping"}),
        ("configure", {"queue": "payments", "lease_time": "120s"}),
        ("seek", {"queue": "invoices", "group": "printer", "to": "start"}),
    ):
        client.post(f"/act/{act}", data=form, headers=OURS)


def page_of(client: httpx2.Client, address: str) -> dict[str, Any]:
    found: dict[str, Any] = client.get(address, headers={"accept": "application/json"}).json()["page"]
    return found


def wait_for(client: httpx2.Client, condition: Any, limit: float = 300) -> None:
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        try:
            if condition():
                return
        except (httpx2.HTTPError, KeyError, ValueError):
            pass
        time.sleep(0.5)
    raise TimeoutError(f"{client.base_url} is not ready")


def take(address: str, pages: dict[str, str]) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for view, options in VIEWS.items():
            context = browser.new_context(base_url=address, **options)
            window = context.new_page()
            for name, path in pages.items():
                width, height = options["viewport"]["width"], options["viewport"]["height"]
                window.set_viewport_size({"width": width, "height": TALL.get(name, height) if width > 400 else height})
                shoot(window, f"/{path}", f"{name}-{view}.png")
            context.close()
        browser.close()


def shoot(window: Page, path: str, file: str) -> None:
    window.goto(path)
    window.locator("#live[data-state=on]").wait_for(timeout=60_000)
    window.wait_for_timeout(700)
    window.screenshot(path=FOLDER / file)
    for folder in sys.argv[1:]:
        window.screenshot(path=Path(folder) / file, full_page=True)


if __name__ == "__main__":
    main()
