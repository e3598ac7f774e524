"""Runs in an environment of its own, with pycose and cwt: verify a COSE_Sign1 that this project wrote.

Read from standard input: one JSON object with ``token`` (hex), ``key`` (PEM of the public key), ``kid`` (hex) and
``algorithm``. Print what each library makes of it.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def by_pycose(token: bytes, key: dict[Any, Any]) -> bool:
    from pycose.keys import CoseKey  # type: ignore[import-not-found]  # of the environment that runs this
    from pycose.messages import Sign1Message  # type: ignore[import-not-found]  # likewise

    message = Sign1Message.decode(token)
    message.key = CoseKey.from_dict(key)
    return bool(message.verify_signature())


def by_cwt(token: bytes, pem: str, kid: bytes, algorithm: str) -> dict[str, Any]:
    import cwt  # type: ignore[import-not-found]  # likewise

    key = cwt.COSEKey.from_pem(pem, kid=kid, alg={"Ed25519": "EdDSA"}.get(algorithm, algorithm))
    claims = cwt.decode(token, keys=key)
    return {str(name): value for name, value in claims.items() if isinstance(value, (int, str))}


def main() -> None:
    asked = json.load(sys.stdin)
    token = bytes.fromhex(asked["token"])
    key = {
        int(name): bytes.fromhex(value) if isinstance(value, str) else value for name, value in asked["cose"].items()
    }
    told = {
        "pycose": by_pycose(token, key),
        "cwt": by_cwt(token, asked["pem"], bytes.fromhex(asked["kid"]), asked["algorithm"]),
    }
    json.dump(told, sys.stdout)


if __name__ == "__main__":
    main()
