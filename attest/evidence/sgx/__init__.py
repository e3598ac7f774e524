"""Intel SGX: the enclave report, of the workload in an SGX quote and of the Quoting Enclave in every quote."""

from __future__ import annotations
