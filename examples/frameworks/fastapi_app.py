"""FastAPI: the worker lives as long as the application. `uvicorn fastapi_app:web`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from tasks import app, send


@asynccontextmanager
async def lifespan(_web: FastAPI) -> AsyncIterator[None]:
    """Without `app.running` (in a web application whose worker runs elsewhere) write `async with app: yield`."""
    async with app.running(concurrency=4):
        yield


web = FastAPI(lifespan=lifespan)


@web.post("/orders/{number}")
async def order(number: int, customer: str) -> dict[str, str]:
    """Take an order."""
    job = await send.push(customer, number, partition=customer)
    return {"job": str(job.id)}
