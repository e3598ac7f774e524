"""Runs in an environment of its own, with model-signing: sign a model, or verify one, as OpenSSF's own package does.

Arguments: ``sign FOLDER SIGNATURE PRIVATE.pem`` or ``verify FOLDER SIGNATURE PUBLIC.pem``. Print ``ok`` or why not.
"""

from __future__ import annotations

import sys

import model_signing  # type: ignore[import-not-found]  # of the environment that runs this


def main() -> None:
    what, folder, signature, key = sys.argv[1:]
    try:
        if what == "sign":
            model_signing.signing.Config().use_elliptic_key_signer(private_key=key).sign(folder, signature)
        else:
            config = model_signing.verifying.Config().use_elliptic_key_verifier(public_key=key)
            config.verify(folder, signature)
    except Exception as exc:  # noqa: BLE001  whatever the package raises is its answer
        print(f"refused: {type(exc).__name__}: {exc}")  # noqa: T201  the answer
    else:
        print("ok")  # noqa: T201  the answer


if __name__ == "__main__":
    main()
