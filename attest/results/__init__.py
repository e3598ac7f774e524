"""How outcomes are told: the JSON result of the command line; tokens come here later."""

from __future__ import annotations

from attest.results.document import RESULT_SCHEMA, appraised_document, refused_document, verified_document

__all__ = ["RESULT_SCHEMA", "appraised_document", "refused_document", "verified_document"]
