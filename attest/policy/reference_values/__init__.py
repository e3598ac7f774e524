"""Reference values as documents of their own: read, made from evidence, manifests and CoRIM."""

from __future__ import annotations
