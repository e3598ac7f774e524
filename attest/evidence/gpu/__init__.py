"""NVIDIA GPUs and NVSwitches: the attestation report, its certificates and reference values, and their procedure."""

from __future__ import annotations
