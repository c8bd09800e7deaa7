"""The process of `rcdrs.artifact.server`: a fork of it runs a command that was handed over."""

from __future__ import annotations

import os
import socket
import sys

from rcdrs.artifact.server import serve
from rcdrs.cli.main import main

if __name__ == "__main__":
    status = main(serve(socket.socket(fileno=int(sys.argv[1]))))
    sys.stdout.flush()
    os._exit(status)  # taking all those modules down would take longer than many a command
