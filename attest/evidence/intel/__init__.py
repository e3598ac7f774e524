"""Common parts of Intel TDX and SGX: the DCAP quote, the PCK certificate, and the procedure that verifies a quote."""

from __future__ import annotations
