"""Azure confidential VMs: CPU evidence made by the paravisor, and quotes of the virtual TPM that it vouches for."""

from __future__ import annotations
