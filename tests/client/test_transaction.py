from __future__ import annotations

import pytest

import queen


async def test_ack_and_push_happen_together(q: queen.Client) -> None:
    await q.push("orders", 1)
    (message,) = await q.pop("orders")
    async with q.transaction() as transaction:
        transaction.push("invoices", {"of": 1}, partition="a", transaction_id="i-1")
        transaction.push("mails", {"of": 1})
        transaction.ack(message)
    assert transaction.result is not None
    assert [pushed.queue for pushed in transaction.result.pushed] == ["invoices", "mails"]
    assert [(pushed.status, pushed.seq) for pushed in transaction.result.pushed] == [("queued", 1), ("queued", 1)]
    assert len(await q.pop("invoices")) == 1
    assert await q.pop("orders") == []


async def test_a_lost_lease_takes_everything_back(q: queen.Client) -> None:
    await q.push("orders", 1)
    (message,) = await q.pop("orders")
    await q.nack(message)
    await q.pop("orders")
    transaction = q.transaction()
    transaction.push("invoices", 1)
    transaction.ack(message)
    with pytest.raises(queen.LeaseLost):
        await transaction.commit()
    assert await q.pop("invoices") == []


async def test_an_error_in_the_block_commits_nothing(q: queen.Client) -> None:
    async def fail() -> None:
        async with q.transaction() as transaction:
            transaction.push("orders", 1)
            raise ArithmeticError

    with pytest.raises(ArithmeticError):
        await fail()
    assert await q.pop("orders") == []


async def test_an_empty_transaction_is_refused(q: queen.Client) -> None:
    async with q.transaction():
        pass
    with pytest.raises(queen.InvalidRequest, match="Transaction has no operations to commit"):
        await q.transaction().commit()


async def test_a_transaction_id_that_is_there_refuses_the_transaction(q: queen.Client) -> None:
    await q.push("orders", 1, transaction_id="o-1")
    transaction = q.transaction()
    transaction.push("orders", 2, transaction_id="o-1")
    transaction.push("mails", 2)
    with pytest.raises(queen.RequestError) as caught:
        await transaction.commit()
    assert caught.value.code == "DUPLICATE_REFUSED"
    assert await q.pop("mails") == []
