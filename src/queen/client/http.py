"""The transport over HTTP: one or more brokers, finite time-outs, the same errors as on the database."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from urllib.parse import quote
from uuid import UUID

import httpx2
import msgspec

from queen import telemetry
from queen.client.endpoints import Endpoint, Endpoints
from queen.client.errors import AnswerLost, TransportError, forked, from_answer
from queen.client.wire import (
    AckResult,
    Extended,
    PopAnswer,
    PushItem,
    PushResult,
    Refusal,
    TransactionAnswer,
    Wire,
    ack_item,
)
from queen.engine import Committed
from queen.errors import InvalidRequest, MessageNotFound
from queen.ids import to_wire
from queen.model import QUEUE_MODE, Ack, Acked, Message, NewMessage, PopRequest, Pushed, Renewal, Standing

T = TypeVar("T")
# Nothing was sent yet: another broker may be asked at once.
_NOT_SENT: Final = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)
_AWAY: Final = (502, 504)


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long each phase of a request may take, in seconds. A waiting pop gets its wait on top of `read`."""

    connect: float = 5.0
    read: float = 35.0
    write: float = 30.0
    pool: float = 10.0


class HttpCalls:
    """Sends requests to brokers."""

    def __init__(
        self,
        urls: Sequence[str],
        *,
        token: str | None = None,
        timeouts: Timeouts | None = None,
        connections: int = 100,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self._process = os.getpid()
        self._endpoints = Endpoints(urls)
        self._timeouts = timeouts or Timeouts()
        self._headers = {"authorization": f"Bearer {token}"} if token else {}
        self._connections = connections
        self._transport = transport
        self._client: httpx2.AsyncClient | None = None

    async def open(self) -> None:
        """Get ready; connections are made when needed."""
        self._process = os.getpid()
        limits = httpx2.Limits(max_connections=self._connections, max_keepalive_connections=self._connections)
        self._client = httpx2.AsyncClient(
            transport=self._transport, limits=limits, headers=self._headers, trust_env=False
        )

    def attend(self) -> None:
        """Nothing to do: brokers run the background services."""

    async def close(self) -> None:
        """Close every connection."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def call(
        self,
        method: str,
        path: str,
        kind: type[T],
        *,
        key: str = "",
        body: object = None,
        query: Mapping[str, Any] | None = None,
        wait: float = 0.0,
    ) -> T | None:
        """One request to the broker that fits `key`; None when it has nothing to say (204)."""
        content = None if body is None else msgspec.json.encode(body)
        trouble: Exception | None = None
        for endpoint in self._endpoints.order(key):
            try:
                response = await self._send(endpoint, method, path, content, query, wait)
            except _NOT_SENT as error:
                self._endpoints.failed(endpoint)
                trouble = error
                continue
            except httpx2.TransportError as error:
                self._endpoints.failed(endpoint)
                raise AnswerLost(f"no answer from {endpoint.url}: {_name(error)}") from error
            if response.status_code in _AWAY:
                self._endpoints.failed(endpoint)
                raise AnswerLost(f"{endpoint.url} answered {response.status_code}")
            self._endpoints.worked(endpoint)
            return _read(response, kind)
        raise TransportError(f"no broker can be reached: {_name(trouble)}") from trouble

    async def _send(
        self,
        endpoint: Endpoint,
        method: str,
        path: str,
        content: bytes | None,
        query: Mapping[str, Any] | None,
        wait: float,
    ) -> httpx2.Response:
        if self._process != os.getpid() and self._client is not None:
            raise forked(self._process)
        if self._client is None:
            raise TransportError("the client is not open: use it as `async with queen.connect(...) as q`")
        limits = self._timeouts
        return await self._client.request(
            method,
            f"{endpoint.url}{path}",
            content=content,
            params=query,
            headers={**telemetry.headers(), **({"content-type": "application/json"} if content is not None else {})},
            timeout=httpx2.Timeout(
                connect=limits.connect, read=limits.read + wait, write=limits.write, pool=limits.pool
            ),
        )


class HttpVerbs(HttpCalls):
    """The verbs over HTTP."""

    async def push(self, items: Sequence[NewMessage], *, again: bool) -> list[Pushed]:
        """Store all or none."""
        first = items[0]
        body = {"items": [PushItem.of(item) for item in items]}
        key = f"{first.queue}/{first.partition}"
        results = await self.call("POST", "/api/v1/push", list[PushResult], key=key, body=body) or []
        for result in results:
            if result.status == "failed":
                raise InvalidRequest("payload", result.error or "the broker refused the message")
        return [result.pushed(item, again=again) for result, item in zip(results, items, strict=True)]

    async def push_on(self, connection: object, item: NewMessage) -> UUID:
        """Not over HTTP: a broker cannot take part in the caller's transaction."""
        raise InvalidRequest(
            "connection", "connection needs a client on the database itself: queen.connect('postgresql://...')"
        )

    async def pop(self, request: PopRequest, *, namespace: str | None, task: str | None) -> list[Message]:
        """Take waiting messages."""
        path = "/api/v1/pop"
        if namespace is None and task is None:
            path += f"/queue/{quote(request.queue, safe='')}"
            if request.partition is not None:
                path += f"/partition/{quote(request.partition, safe='')}"
        query = {
            "batch": request.batch,
            "wait": "true" if request.wait > 0 else "false",
            "timeout": round(request.wait * 1000),
            "partitions": request.partitions if request.partitions > 1 else None,
            "consumerGroup": request.group if request.group != QUEUE_MODE else None,
            "autoAck": "true" if request.auto_ack else None,
            "leaseSeconds": request.lease_seconds,
            "prefetch": "true" if request.prefetch else None,
            "subscriptionMode": "new" if request.mode == "new" else None,
            "subscriptionFrom": request.start_at.isoformat() if request.start_at else None,
            "namespace": namespace,
            "task": task,
        }
        answer = await self.call(
            "GET",
            path,
            PopAnswer,
            key=f"{request.queue}/{request.group}",
            query={name: value for name, value in query.items() if value is not None},
            wait=request.wait,
        )
        return [] if answer is None else answer.found()

    async def ack(self, acks: Sequence[Ack]) -> list[Acked]:
        """Say what became of single messages; one call per group."""
        if not acks:
            return []
        found: dict[int, Acked] = {}
        for group in dict.fromkeys(ack.group for ack in acks):
            places = [place for place, ack in enumerate(acks) if ack.group == group]
            body = {"consumerGroup": group, "acknowledgments": [ack_item(acks[place]) for place in places]}
            results = await self.call("POST", "/api/v1/ack/batch", list[AckResult], body=body) or []
            found.update(zip(places, (result.acked() for result in results), strict=True))
        return [found[place] for place in range(len(acks))]

    async def ack_up_to(self, messages: Sequence[Message]) -> list[Acked]:
        """Everything up to the last of these messages is done in each partition."""
        last: dict[tuple[int, UUID], Message] = {}
        for message in messages:
            if message.lease_id is not None:
                last[message.partition_id, message.lease_id] = message
        return await self.ack(
            [
                Ack(
                    partition_id=one.partition_id,
                    transaction_id=one.transaction_id,
                    group=one.group,
                    lease_id=one.lease_id,
                )
                for one in last.values()
            ]
        )

    async def renew(self, leases: Sequence[UUID], seconds: int) -> list[Renewal]:
        """Extend leases."""
        found: list[Renewal] = []
        for lease in leases:
            body = {"seconds": seconds}
            one = await self.call("POST", f"/api/v1/lease/{lease}/extend", Extended, body=body) or Extended()
            found.append(Renewal(renewed=one.renewed, expires_at=one.new_expires_at))
        return found

    async def release(self, leases: Sequence[UUID], delay: float, *, failed: bool = False) -> list[int]:
        """Hand leases back."""
        found: list[int] = []
        for lease in leases:
            body = {"leaseId": str(lease), "delayMs": round(delay * 1000), "failed": failed}
            one = await self.call("POST", "/api/v1/nack", Released, body=body) or Released()
            found.append(one.released)
        return found

    async def remove(self, message: Message) -> bool:
        """Remove a message, whoever has it."""
        place = f"{to_wire('partition', message.partition_id)}/{quote(message.transaction_id, safe='')}"
        answer = await self.call("DELETE", f"/api/v1/messages/{place}", Recorded)
        return answer is not None and answer.success

    async def cancel(
        self, queue: str, partition: str, message_id: UUID, transaction_id: str, *, look: bool
    ) -> Standing:
        """Where a message stands; remove it when nobody has begun it, unless only to look."""
        body = {
            "queue": queue,
            "partition": partition,
            "id": message_id,
            "transactionId": transaction_id,
            "look": look,
        }
        answer = await self.call("POST", "/api/v1/messages/cancel", Cancelled, body=body)
        return "unknown" if answer is None else answer.state

    async def transaction(self, pushes: Sequence[NewMessage], acks: Sequence[Ack]) -> Committed:
        """Pushes and acks in one commit."""
        operations: list[object] = []
        if pushes:
            operations.append({"type": "push", "items": [PushItem.of(item) for item in pushes]})
        operations += [{"type": "ack", **ack_item(ack)} for ack in acks]
        leases = sorted({str(ack.lease_id) for ack in acks if ack.lease_id is not None})
        body = {"operations": operations, "requiredLeases": leases}
        answer = await self.call("POST", "/api/v1/transaction", TransactionAnswer, body=body)
        if answer is None or not answer.success:
            text = "the transaction was rolled back" if answer is None or not answer.error else answer.error
            code = (answer.code if answer else None) or ("LEASE_LOST" if "lease" in text.lower() else None)
            raise from_answer(409, text, code or "TRANSACTION_ROLLED_BACK", {})
        made = [result for result in answer.results if result.type == "push"]
        told = [result for result in answer.results if result.type == "ack"]
        return Committed(
            [
                PushResult(
                    status=one.status or "queued",
                    message_id=one.message_id,
                    partition_id=one.partition_id,
                    seq=one.seq,
                ).pushed(item, again=False)
                for one, item in zip(made, pushes, strict=True)
            ],
            [Acked(verdict="acked", released=True, dead_letter=one.dlq) for one in told],
        )

    async def record_trace(self, message: Message, event: str, data: str, name: str | None) -> None:
        """Write a note about a message."""
        item = ack_item(Ack(partition_id=message.partition_id, transaction_id=message.transaction_id))
        body = {
            "transactionId": item["transactionId"],
            "partitionId": item["partitionId"],
            "data": msgspec.Raw(data.encode()),
            "consumerGroup": message.group,
            "eventType": event,
            "traceNames": None if name is None else [name],
        }
        answer = await self.call("POST", "/api/v1/traces", Recorded, body=body)
        if answer is None or not answer.success:
            raise MessageNotFound(f"there is no message {message.transaction_id!r} in {message.partition!r} any more")


class Released(Wire):
    """How many partitions a lease gave back."""

    released: int = 0


class Cancelled(Wire):
    """Where a message stood."""

    state: Standing


class Recorded(Wire):
    """Whether a note was taken."""

    success: bool = False


def _read(response: httpx2.Response, kind: type[T]) -> T | None:
    if response.status_code == 204:
        return None
    if response.status_code >= 400:
        raise _refused(response)
    try:
        return msgspec.json.decode(response.content, type=kind)
    except msgspec.MsgspecError as error:
        raise TransportError(f"the answer is not one of Queen's: {error}") from error


def _refused(response: httpx2.Response) -> Exception:
    try:
        body = msgspec.json.decode(response.content, type=Refusal)
    except msgspec.MsgspecError:
        body = Refusal(error=response.text[:200])
    figures = dict(body.details or {})
    wait = response.headers.get("retry-after", "")
    if response.status_code == 429 and wait.isdigit():
        figures.setdefault("retry_after", int(wait))
    return from_answer(response.status_code, body.error or f"HTTP {response.status_code}", body.code, figures)


def _name(error: Exception | None) -> str:
    return f"{type(error).__name__} {error}".strip()
