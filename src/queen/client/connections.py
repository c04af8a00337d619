"""A caller's own connection: which library made it, and which of them belongs to the calling thread."""

from __future__ import annotations

from typing import Any

from queen.errors import InvalidRequest


def of_this_thread(connection: object) -> object:
    """Django's `connection` is another one in every thread: the driver's connection of the caller's thread."""
    if library(connection) != "django":
        return connection
    wrapper: Any = connection
    if wrapper.vendor != "postgresql":
        raise InvalidRequest("connection", f"connection must be one to PostgreSQL, not to {wrapper.vendor}")
    if not wrapper.in_atomic_block:
        raise not_in_transaction("with transaction.atomic(): ...")
    driver: object = wrapper.connection
    return driver


def library(connection: object) -> str:
    """Which library a connection, or what somebody derived from one, belongs to."""
    known = {"asyncpg", "psycopg", "sqlalchemy", "django"}
    names = [base.__module__.partition(".")[0] for base in type(connection).__mro__]
    return next((name for name in names if name in known), "")


def not_in_transaction(write: str) -> InvalidRequest:
    """The refusal of a connection that commits every statement by itself."""
    return InvalidRequest(
        "connection",
        f"connection must be in a transaction, or the message would stay when you roll back; write: {write}",
    )
