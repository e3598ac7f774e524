"""What vendors say about their hardware: anchors, certificates, revocation lists, and what can be asked for."""

from __future__ import annotations
