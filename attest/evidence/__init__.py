"""What an Attester says: the envelope, what it commits to, and one package for each format."""

from __future__ import annotations
