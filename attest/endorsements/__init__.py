"""Endorsements: anchors, certificates, revocation lists, and typed requests for them."""

from __future__ import annotations
