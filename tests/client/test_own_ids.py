"""Ids that a client over HTTP makes for its messages are its own: nobody looks for them in the tail of a partition."""

from __future__ import annotations

from queen.client.wire import PushItem
from queen.ids import as_callers, may_be_made_here, uuid7, uuid7s
from queen.model import NewMessage


def test_a_push_over_http_bears_no_sign_of_the_server() -> None:
    item = NewMessage(queue="q", partition="p", payload="1", id=uuid7())
    transaction_id = PushItem.of(item).transaction_id
    assert transaction_id is not None
    assert may_be_made_here(str(item.id))
    assert not may_be_made_here(transaction_id)
    assert PushItem.of(item).transaction_id == transaction_id, "every attempt has the same"


def test_they_stay_different_and_in_order() -> None:
    ids = [as_callers(made) for made in uuid7s(1000)]
    assert ids == sorted(set(ids))
