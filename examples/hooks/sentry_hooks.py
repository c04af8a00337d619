"""Tasks that failed for good in Sentry, each with the task, queue, partition and attempt it failed in.

    sentry_sdk.init(dsn=...)
    watch(app)

The attempts before are warnings in the log, which Sentry shows as the event's breadcrumbs by itself.
"""

from __future__ import annotations

import sentry_sdk

import queen


def watch(app: queen.App) -> None:
    """Report what the workers of an application give up."""
    app.on_dead_letter(report)


def report(running: queen.Running, error: Exception) -> None:
    """One event for one dead letter. The values of arguments stay out: they may be personal."""
    message = running.message
    with sentry_sdk.new_scope() as scope:
        scope.set_tag("queen.task", running.task)
        scope.set_tag("queen.queue", message.queue)
        scope.set_context(
            "message",
            {
                "id": str(message.id),
                "partition": message.partition,
                "transaction_id": message.transaction_id,
                "attempt": running.attempt,
                "arguments": sorted(running.arguments),
            },
        )
        scope.capture_exception(error)
