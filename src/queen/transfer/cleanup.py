"""Drop what a transfer leaves behind: the earlier schema after a cutover, the copy before one or after a rollback."""

from __future__ import annotations

from queen.sql import query
from queen.transfer.cutover import require_passed
from queen.transfer.errors import TransferRefused
from queen.transfer.link import Link
from queen.transfer.model import aside


def describe(link: Link) -> str:
    """What `cleanup` would drop now."""
    if link.state is None:
        raise TransferRefused("there is nothing to clean up: no transfer was begun")
    if link.state.phase == "done":
        return f"the earlier schema {aside(link.version)} with everything in it; there is no way back then"
    if link.state.phase in ("closing", "returning"):
        link.require("done")
    return "the copy (queen_next) and the triggers on the source; the source itself stays as it is"


async def cleanup(link: Link) -> None:
    """Drop it. The earlier schema only after a cutover, and only if a verify passed."""
    describe(link)
    assert link.state is not None
    if link.state.phase == "done":
        await require_passed(link)
        async with link.source.transaction():
            await link.source.execute(query("transfer/unwatch"))
            await link.source.execute(query(f"transfer/{link.version}/drop_source"))
        async with link.target.transaction():
            await link.target.execute(query("transfer/target/drop_records"))
        return
    async with link.source.transaction():
        await link.source.execute(query("transfer/unwatch"))
        if not link.same:
            await link.source.execute(query("transfer/target/drop_records"))
    async with link.target.transaction():
        await link.target.execute(query("transfer/target/drop_copy"))
