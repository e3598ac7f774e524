"""Runs one command in the interpreter of `warm_commands.py`: `python -I -S warm_client.py SOCKET attest WORDS...`."""

import json
import os
import socket
import sys

with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as _connection:
    _connection.connect(sys.argv[1])
    _folder = os.getcwd()  # noqa: PTH109  pathlib takes longer to import than all of this
    _asked = {"words": sys.argv[2:], "folder": _folder, "env": dict(os.environ)}
    socket.send_fds(_connection, [json.dumps(_asked).encode()], [0, 1, 2])
    _code = _connection.recv(1)
sys.exit(_code[0] if _code else 70)
