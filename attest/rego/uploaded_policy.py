"""A policy that is uploaded: read, compiled by the engine in its confined process, and not evaluated."""

from __future__ import annotations

import time

from attest.errors import ConfigurationError
from attest.rego.evaluation import DEFAULT_LIMITS
from attest.rego.policy import RegoForm, RegoPolicy, invalid, read_rego_policy
from attest.rego.question import compiled_for
from attest.rego.tokens import tokens_of
from attest.rego.zygotes import EngineFaultError, EngineRefusedError, RegoLimits, Zygote


def uploaded_rego_policy(
    data: bytes, *, form: RegoForm | None = None, limits: RegoLimits = DEFAULT_LIMITS
) -> RegoPolicy:
    """Read a policy and let the engine compile it.

    Args:
        data: the text, UTF-8.
        form: of the place that it is uploaded to; without it, the form is found out from the rules.
        limits: of the compilation.

    Raises:
        ConfigurationError: ``rego-policy-invalid``, with line and column; ``rego-not-evaluated``: the engine cannot
            be asked.
    """
    policy = read_rego_policy(data, form=form)
    try:
        Zygote(compiled_for(policy, {}, {})[0], limits, time.monotonic() + limits.seconds).end()
    except EngineFaultError as exc:
        raise invalid(str(exc), policy.source, _place(policy, exc)) from exc
    except EngineRefusedError as exc:
        raise ConfigurationError(str(exc), code="rego-not-evaluated", clause="docs/rego.md") from exc
    return policy


def _place(policy: RegoPolicy, fault: EngineFaultError) -> int:
    """Return the place of a fault in characters; of a function, that of the first word of its name."""
    if fault.offset is not None:
        return len(policy.source.encode()[: fault.offset].decode(errors="replace"))
    first = (fault.function or "").partition(".")[0]
    return next((token.place for token in tokens_of(policy.source) if (token.kind, token.value) == ("name", first)), 0)
