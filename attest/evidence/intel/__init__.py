"""What Intel TDX and SGX share: the DCAP quote, the PCK certificate, and the procedure that authenticates a quote."""

from __future__ import annotations
