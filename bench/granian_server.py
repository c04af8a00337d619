"""The same application under granian, for the comparison in `bench/broker.py --server granian`."""

from __future__ import annotations

import os

from granian import Granian
from granian.constants import Interfaces, Loops

from queen import config
from queen.server import logs
from queen.server.app import App
from queen.server.broker import Broker


def load() -> App:
    settings = config.load()
    logs.set_up(settings)
    return App(Broker(settings))


def main() -> None:
    port = int(os.environ["QUEEN_PORT"])
    server = Granian(
        "granian_server:load",
        address="127.0.0.1",
        port=port,
        interface=Interfaces.ASGI,
        loop=Loops.uvloop,
        workers=1,
        log_access=False,
        websockets=False,
    )
    server.serve(target_loader=load, wrap_loader=False)


if __name__ == "__main__":
    main()
