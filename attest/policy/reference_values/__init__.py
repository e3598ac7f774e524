"""Reference values as documents of their own: read, made from evidence, manifests and CoRIM, and written as CoRIM."""

from __future__ import annotations
