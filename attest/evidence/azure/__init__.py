"""Azure confidential VMs: CPU evidence of the paravisor, and quotes of the virtual TPM under a key in it."""

from __future__ import annotations
