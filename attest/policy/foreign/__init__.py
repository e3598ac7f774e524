"""Policies of other systems: Azure's secure key release, NVIDIA's JSON, and conversion from and to ours."""

from __future__ import annotations
