"""``python -m benchmarks [ID]``: run all benchmarks, or one; each prints its closing line last."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Mapping
from functools import partial
from importlib.metadata import version

from attest.errors import ConfigurationError
from benchmarks import (
    attack,
    channel,
    cli,
    gpu,
    intel,
    kbs,
    load,
    many,
    page,
    policy,
    rag_answers,
    rag_embedding,
    rag_retrieval,
    receipts,
    rego,
    release,
    remote_reading,
    sealed_tensors,
    sealing,
    snp,
)
from benchmarks.measure import Figure

BENCHMARKS: Mapping[str, Callable[[], Figure]] = {
    "snp-verify-warm": snp.warm,
    "snp-verify-cold": snp.cold,
    "tdx-vs-dcap-qvl-warm": intel.warm,
    "tdx-vs-dcap-qvl-cold": intel.cold,
    "gpu-vs-nvidia-warm": gpu.warm,
    "gpu-vs-nvidia-cold": gpu.cold,
    "gpu-8-vs-1": gpu.eight,
    "policy-40-checks-us": policy.forty_checks,
    "rego-warm-ms": rego.warm,
    "release-vs-signatures": release.release_vs_signatures,
    "kms-throughput": load.kms_throughput,
    "kbs-release": kbs.kbs_release,
    "kms-under-attack": attack.kms_under_attack,
    "kms-million-keys": many.million_keys,
    "seal-vs-openssl": sealing.seal_vs_openssl,
    "unseal-vs-openssl-1": partial(sealing.unseal_vs_openssl, 1),
    "unseal-vs-openssl-2": partial(sealing.unseal_vs_openssl, 2),
    "unseal-vs-tink": sealing.unseal_vs_tink,
    "unseal-memory-mb": sealing.unseal_memory,
    "sealed-random-read": sealing.random_read,
    "sealed-remote-read": remote_reading.remote_read,
    "sealed-safetensors-load": sealed_tensors.load_ratio,
    "channel-request-us": channel.request,
    "channel-chunks-vs-aes-gcm": channel.chunks,
    "receipt-cost": receipts.cost,
    "receipt-verify-ms": receipts.verify,
    "rag-embed-query-ms": rag_embedding.query,
    "rag-embed-passages": rag_embedding.passages,
    "rag-answers": rag_answers.answers,
    "rag-recall-at-5": rag_retrieval.recall,
    "rag-refusal-rate": rag_retrieval.refusal,
    "rag-search-ms": rag_retrieval.search,
    "rag-search": rag_retrieval.search_ratio,
    "page-verify-ms": page.verify_time,
    "page-first-verdict-ms": page.first_verdict,
    "bundle-gzip-kb": page.bundle_size,
    "cli-help-ms": cli.help_time,
}

LONG: Mapping[str, Callable[[], Figure]] = {"kbs-memory-mb": kbs.kbs_memory}
"""Benchmarks of many minutes, which run only when they are named."""


def main(arguments: list[str]) -> int:
    """Run the named benchmarks, or all but the long ones. A bar that is not held is a finding and no failure."""
    known = {**BENCHMARKS, **LONG}
    unknown = [name for name in arguments if name not in known]
    if unknown:
        print(f"error: no benchmark is called {unknown[0]!r}", file=sys.stderr)
        print(f"hint: one of {', '.join(known)}", file=sys.stderr)
        return 2
    machine = f"{platform.machine()}, Python {platform.python_version()}, cryptography {version('cryptography')}"
    print(f"# {machine}")
    missing = False
    for name in arguments or BENCHMARKS:
        try:
            figure = known[name]()
        except intel.NoVectorsError:
            print(f"error: {name} needs the recorded evidence; set ATTEST_VECTORS to its folder", file=sys.stderr)
            missing = True
            continue
        except ConfigurationError as exc:
            print(f"error: {name}: {exc.message}\nhint: {exc.hint}", file=sys.stderr)
            missing = True
            continue
        print(f"# {figure.detail}")
        print(figure.line(), flush=True)
    return 2 if missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
