from __future__ import annotations

import pytest
from click.testing import CliRunner

from queen.cli import COMMANDS, main
from tests.cli.conftest import Queen, lines


def test_queue_configure_show_pause(queen: Queen) -> None:
    (made,) = lines(queen("queue", "configure", "orders", "lease_time=60", "partial_failure=retry", "--task", "mail"))
    assert (made["lease_time"], made["partial_failure"], made["task"]) == (60, "retry", "mail")
    assert queen("queue", "configure", "orders", "lease_tim=60").exit_code == 2
    assert queen("queue", "configure", "orders", "lease_time=-1").exit_code == 2
    queen("push", "orders", "1")
    (shown,) = lines(queen("queue", "show", "orders"))
    assert shown["lanes"][0]["depth"] == 1
    assert "lease time" in queen("queue", "show", "orders", "-o", "table").stdout
    assert queen("queue", "pause", "orders").exit_code == 0
    assert lines(queen("pop", "orders")) == []
    assert queen("queue", "resume", "orders").exit_code == 0
    assert len(lines(queen("pop", "orders"))) == 1


def test_removing_shows_the_count_and_asks(queen: Queen) -> None:
    queen("push", "orders", text="1\n2\n3\n")
    refused = queen("queue", "clear", "orders", text="n\n")
    assert refused.exit_code == 4
    assert "This removes 3 messages of orders." in refused.stderr
    assert queen("queue", "clear", "orders").exit_code == 4
    assert lines(queen("queue", "clear", "orders", "--yes")) == [{"queue": "orders", "removed": 3}]
    assert queen("queue", "rm", "orders", text="y\n").exit_code == 0
    assert queen("queue", "rm", "orders", "--yes").exit_code == 3
    assert "no queues yet" in queen("queue", "ls", "-o", "table").stderr


def test_group_seek_previews_and_asks(queen: Queen) -> None:
    queen("push", "orders", text="1\n2\n3\n")
    queen("pop", "orders", "--group", "billing", "--batch", "3", "--auto-ack")
    (preview,) = lines(queen("group", "seek", "orders", "billing", "--to", "start", "--dry-run"))
    assert (preview["redelivered"], preview["dry_run"]) == (3, True)
    refused = queen("group", "seek", "orders", "billing", "--to", "start", text="n\n")
    assert "This delivers 3 messages again and skips 0" in refused.stderr
    assert refused.exit_code == 4
    assert queen("group", "seek", "orders", "billing", "--to", "start", "--yes").exit_code == 0
    (group,) = lines(queen("group", "ls", "--queue", "orders"))
    assert (group["group"], group["lag"]) == ("billing", 3)
    (lane,) = lines(queen("group", "show", "billing"))
    assert lane["lag"] == 3
    assert queen("group", "seek", "orders", "billing", "--to", "2020-01-01", "--yes").exit_code == 0
    assert queen("group", "seek", "orders", "billing", "--to", "soon").exit_code == 2
    assert queen("group", "rm", "billing", "--yes").exit_code == 0
    assert queen("group", "rm", "billing", "--yes").exit_code == 3
    assert queen("group", "show", "billing").exit_code == 3


def test_dlq(queen: Queen) -> None:
    queen("push", "orders", text="1\n2\n3\n")
    popped = queen("pop", "orders", "--batch", "3").stdout
    queen("ack", "-", "--status", "dlq", "--error", "no address", text=popped)
    letters = lines(queen("dlq", "ls", "--queue", "orders"))
    assert [(letter["data"], letter["error"]) for letter in letters] == [(n, "no address") for n in (3, 2, 1)]
    (one,) = lines(queen("dlq", "show", str(letters[0]["id"])))
    assert one == letters[0]
    assert queen("dlq", "show", "999").exit_code == 3
    assert "no address" in queen("dlq", "ls", "-o", "table").stdout

    assert queen("dlq", "redrive").exit_code == 2
    (done,) = lines(queen("dlq", "redrive", "--id", str(one["id"]), "--payload", '{"mended": 1}', "--yes"))
    assert (done["matched"], done["redriven"]) == (1, 1)
    assert lines(queen("pop", "orders", "--auto-ack"))[0]["data"] == {"mended": 1}
    refused = queen("dlq", "purge", "--queue", "orders", "--error", "address", text="n\n")
    assert refused.exit_code == 4
    assert "This removes 3 dead letters for good." in refused.stderr
    assert lines(queen("dlq", "purge", "--queue", "orders", "--yes"))[0]["purged"] == 3
    assert lines(queen("dlq", "ls")) == []


def test_init_and_reset(empty_database: str) -> None:
    def queen(*arguments: str, text: str | None = None) -> object:
        return CliRunner(env={"QUEEN_URL": empty_database}).invoke(main, arguments, input=text)

    assert CliRunner(env={"QUEEN_URL": empty_database}).invoke(main, ["queue", "ls"]).exit_code == 5
    assert lines(queen("init"))[0]["applied"] > 0  # type: ignore[arg-type]
    assert lines(queen("init")) == [{"applied": 0}]  # type: ignore[arg-type]
    queen("push", "orders", "1")
    refused = CliRunner(env={"QUEEN_URL": empty_database}).invoke(main, ["init", "--reset"], input="n\n")
    assert refused.exit_code == 4
    assert "This drops 1 queues with 1 messages" in refused.stderr
    assert lines(queen("init", "--reset", "--yes"))[0]["applied"] > 0  # type: ignore[arg-type]
    assert lines(queen("queue", "ls")) == []  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("url", "code", "words"),
    [
        ("postgresql://127.0.0.1:1/x", 5, "cannot connect to PostgreSQL"),
        ("http://127.0.0.1:1", 5, "no broker can be reached"),
        ("ftp://x", 2, "url must be one postgresql:// address"),
    ],
)
def test_errors_are_one_line_with_their_code(url: str, code: int, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("queen.client.retry.Retry.delay", lambda *_: 0.0)
    result = CliRunner().invoke(main, ["queue", "ls", "--url", url])
    assert (result.exit_code, words in result.stderr) == (code, True)
    assert len(result.stderr.splitlines()) == 1


def test_every_command_has_help_and_completion_is_offered() -> None:
    for name in COMMANDS:
        result = CliRunner().invoke(main, [name, "--help"])
        assert result.exit_code == 0, name
    for shell in ("bash", "zsh", "fish"):
        assert "_QUEEN_COMPLETE" in CliRunner().invoke(main, ["completion", shell]).stdout


def test_queue_explain_and_units(queen: Queen) -> None:
    told = queen("queue", "explain", "-o", "table").stdout
    assert "retry delay" not in told
    assert "retry_delay" in told
    assert "milliseconds" in told
    (one,) = lines(queen("queue", "explain", "maxSize"))
    assert (one["option"], one["default"]) == ("max_queue_size", 0)
    assert "did you mean retry_delay" in queen("queue", "explain", "retry_dealy").stderr
    assert "did you mean retry_delay" in queen("queue", "configure", "orders", "retry_dely=5").stderr
    (made,) = lines(queen("queue", "configure", "orders", "retry_delay=2s", "lease_time=2m"))
    assert (made["retry_delay"], made["lease_time"]) == (2000, 120)
    shown = queen("queue", "show", "orders", "-o", "table").stdout
    assert "2,000 ms" in shown
    assert "120 s" in shown
    assert "dead letter queue" not in shown
