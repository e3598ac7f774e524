"""Receipts for answers: which model, in which machine, gave this answer to this request.

::

    record = record_of(OpenedModel(directory=directory, release=key))           the machine: what was loaded,
    signer = ReceiptSigner.born((record,), random=os.urandom, …)                keys that evidence commits to,
    recorder = ExchangeRecorder(signer, issuer=name, model=record, …)           one receipt for each exchange,
    app = ReceiptMiddleware(app, recorder, chain=chain)                         in front of any ASGI application
    verify_receipt(parse_receipt_file(data), expect=expectation, at=now)        anybody, offline

``claims``, ``statement``, ``signed_receipt``, ``receipt_file`` and ``json_view`` are formats; ``verification`` is the
numbered procedure, with ``model_proof`` and ``release_proof``. All but ``asgi`` and ``opened_models`` do no I/O.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attest.lazy_names import lazy_names

if TYPE_CHECKING:
    from attest.receipts.asgi import ReceiptMiddleware
    from attest.receipts.binding import receipt_binding
    from attest.receipts.claims import ReceiptClaims, RequestClaim, ResponseClaim
    from attest.receipts.exchange import Exchange, ExchangeRecorder
    from attest.receipts.exchange_checks import BodyDigest
    from attest.receipts.model_proof import VerifiedPart
    from attest.receipts.opened_models import OpenedModel, record_of
    from attest.receipts.receipt_file import (
        ModelParts,
        PartReference,
        ReceiptChain,
        ReceiptFile,
        ReleasePart,
        parse_receipt_file,
    )
    from attest.receipts.sequences import require_consistent
    from attest.receipts.signed_receipt import SignedReceipt, parse_receipt
    from attest.receipts.signer import ReceiptSigner
    from attest.receipts.statement import ModelRecord, ReceiptStatement, parse_statement
    from attest.receipts.verification import ReceiptExpectation, VerifiedReceipt, verify_receipt

__all__ = [
    "BodyDigest",
    "Exchange",
    "ExchangeRecorder",
    "ModelParts",
    "ModelRecord",
    "OpenedModel",
    "PartReference",
    "ReceiptChain",
    "ReceiptClaims",
    "ReceiptExpectation",
    "ReceiptFile",
    "ReceiptMiddleware",
    "ReceiptSigner",
    "ReceiptStatement",
    "ReleasePart",
    "RequestClaim",
    "ResponseClaim",
    "SignedReceipt",
    "VerifiedPart",
    "VerifiedReceipt",
    "parse_receipt",
    "parse_receipt_file",
    "parse_statement",
    "receipt_binding",
    "record_of",
    "require_consistent",
    "verify_receipt",
]

__getattr__ = lazy_names(
    __name__,
    {
        "attest.receipts.asgi": ("ReceiptMiddleware",),
        "attest.receipts.binding": ("receipt_binding",),
        "attest.receipts.claims": ("ReceiptClaims", "RequestClaim", "ResponseClaim"),
        "attest.receipts.exchange": ("Exchange", "ExchangeRecorder"),
        "attest.receipts.exchange_checks": ("BodyDigest",),
        "attest.receipts.model_proof": ("VerifiedPart",),
        "attest.receipts.opened_models": ("OpenedModel", "record_of"),
        "attest.receipts.receipt_file": (
            "ModelParts",
            "PartReference",
            "ReceiptChain",
            "ReceiptFile",
            "ReleasePart",
            "parse_receipt_file",
        ),
        "attest.receipts.sequences": ("require_consistent",),
        "attest.receipts.signed_receipt": ("SignedReceipt", "parse_receipt"),
        "attest.receipts.signer": ("ReceiptSigner",),
        "attest.receipts.statement": ("ModelRecord", "ReceiptStatement", "parse_statement"),
        "attest.receipts.verification": ("ReceiptExpectation", "VerifiedReceipt", "verify_receipt"),
    },
)
