"""`python -m specmon.core.engine`: started by `client.EngineClient`, not by people."""

from __future__ import annotations

import argparse
import faulthandler
import logging
import signal
import socket
import sys
from pathlib import Path

from specmon.core.engine.main import Engine, EngineOptions
from specmon.core.engine.outbox import VIEW_QUEUE_EVENTS


def main() -> None:
    """Serve the socket whose descriptor was passed; stderr is the log."""
    parser = argparse.ArgumentParser(prog="specmon engine")
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--state-dir", type=Path, required=True)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--view-queue", type=int, default=VIEW_QUEUE_EVENTS)
    parser.add_argument("--no-pin", action="store_true")
    parser.add_argument("--debug", action="store_true")
    args = parser.parse_args()

    faulthandler.enable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl+c is the view's to judge
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("specmon").setLevel(logging.DEBUG if args.debug else logging.INFO)

    sock = socket.socket(fileno=args.fd)
    sock.set_inheritable(False)
    options = EngineOptions(
        state_dir=args.state_dir, log=args.log, pin=not args.no_pin, view_queue=args.view_queue
    )
    sys.exit(Engine(sock, options).run())


if __name__ == "__main__":
    main()
