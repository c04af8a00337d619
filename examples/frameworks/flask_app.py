"""Flask: views push without an event loop; the worker is `queen worker tasks:app`."""

from __future__ import annotations

from flask import Flask, request
from tasks import send

web = Flask(__name__)


@web.post("/orders/<int:number>")
def order(number: int) -> dict[str, str]:
    """Take an order."""
    customer = request.args["customer"]
    job = send.push_sync(customer, number, partition=customer)
    return {"job": str(job.id)}
