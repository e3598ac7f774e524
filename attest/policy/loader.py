"""Loader of policies: from YAML or JSON to a typed, digested policy with prepared rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256

from attest.checks import Unchecked
from attest.errors import InvalidValueError
from attest.evidence.tolerances import NO_TOLERANCES, AcceptedValue, DeviceTolerances, GpuTolerances
from attest.policy.azure import rules_of_cpu
from attest.policy.decoder import RelaxedDemand
from attest.policy.document import canonical_json, placed, read_document
from attest.policy.gpu import BASELINE_GPU_RULES, BASELINE_SWITCH_RULES
from attest.policy.intel import BASELINE_SGX_RULES, BASELINE_TDX_RULES
from attest.policy.model import decode_policy
from attest.policy.preparation import prepared, tolerated, tolerated_spls
from attest.policy.reference_values.reference_documents import NO_REFERENCE_DOCUMENTS, ReferenceDocument
from attest.policy.references import reference_digest
from attest.policy.rule_tree import SET, AllBranch, Leaf, PlacedRule, kinds_of, placed_rules
from attest.policy.rules import Rule
from attest.policy.snp import BASELINE_SNP_RULES
from attest.policy.verifiers import AcceptedVerifier

NO_REFERENCES = reference_digest({})


BASELINE_RULES: Mapping[str, tuple[Rule, ...]] = {
    "sev-snp": BASELINE_SNP_RULES,
    "tdx": BASELINE_TDX_RULES,
    "sgx": BASELINE_SGX_RULES,
    "azure-snp": rules_of_cpu(BASELINE_SNP_RULES, "snp"),
    "azure-tdx": rules_of_cpu(BASELINE_TDX_RULES, "tdx"),
    "nvidia-gpu": BASELINE_GPU_RULES,
    "nvidia-switch": BASELINE_SWITCH_RULES,
    "sample": (),
    "sample-device": (),
}
"""The rules without a policy, by kind of Attester."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """An Appraisal Policy for Evidence, ready to use.

    Attributes:
        version: the author's number, which only grows.
        digest: SHA-256 of the document's canonical JSON (RFC 8785), 32 bytes.
        tree: every rule, in the place where it stands. Kinds of Attesters that none of them is about are refused.
        simulated: why simulated evidence is tolerated, or None to refuse it.
        unchecked: what verification need not judge, each with its reason.
        gpu_tolerances: what verification is to let pass in GPUs by name; shown in every result.
        switch_tolerances: as above in NVSwitches, whose measurements have other meanings.
        accepted_spls: the same for levels in the certificate of a SEV-SNP report's key.
        verifiers: the Verifiers whose tokens it accepts in the place of evidence.
        production: False for the built-in baseline, which is no production policy.
        reference_digest: SHA-256 over the reference values that its rules use, 32 bytes; see ``reference_digest``.
        kinds: the kinds of Attesters that some rule is about.
        categories: AR4SI trustworthiness claim of each rule, by check id.
    """

    name: str
    version: int
    digest: bytes
    tree: AllBranch
    simulated: str | None
    unchecked: tuple[Unchecked, ...]
    gpu_tolerances: GpuTolerances = NO_TOLERANCES
    switch_tolerances: GpuTolerances = NO_TOLERANCES
    accepted_spls: tuple[AcceptedValue, ...] = ()
    verifiers: tuple[AcceptedVerifier, ...] = ()
    production: bool = True
    reference_digest: bytes = NO_REFERENCES
    kinds: tuple[str, ...] = field(init=False)
    categories: Mapping[str, str] = field(init=False)

    def __post_init__(self) -> None:
        """Prepare the parts of the tree that every appraisal uses."""
        object.__setattr__(self, "kinds", kinds_of(self.tree))
        object.__setattr__(self, "categories", {one.rule.id: one.rule.category for one in self.all_rules()})

    @property
    def tolerances(self) -> DeviceTolerances:
        """The tolerances of a policy for verification, by kind of device."""
        return DeviceTolerances(gpus=self.gpu_tolerances, switches=self.switch_tolerances, spls=self.accepted_spls)

    @property
    def rules(self) -> Mapping[str, tuple[Rule, ...]]:
        """Every rule for each kind of Attester in the policy, from all branches.

        For inspection: in a policy with branches not all of them have to hold.
        """
        rules: dict[str, tuple[Rule, ...]] = {}
        for one in self.all_rules():
            if one.kind != SET:
                rules[one.kind] = (*rules.get(one.kind, ()), one.rule)
        return rules

    @property
    def set_rules(self) -> tuple[Rule, ...]:
        """Every rule over all devices together, each over a ``DeviceSet``, from all branches."""
        return tuple(one.rule for one in self.all_rules() if one.kind == SET)

    def all_rules(self) -> Iterator[PlacedRule]:
        """Yield every rule with its place, in the order of the checks in a result."""
        return placed_rules(self.tree)

    @staticmethod
    def baseline() -> Policy:
        """Return the built-in policy: genuine, not debuggable, not migratable, not simulated."""
        rules = "\n".join(f"{rule.id}: {rule.expected}" for kind in BASELINE_RULES.values() for rule in kind)
        return Policy(
            name="baseline",
            version=1,
            digest=sha256(f"attest baseline policy v1\n{rules}".encode()).digest(),
            tree=AllBranch(
                path="",
                members=tuple(Leaf(path="", kind=kind, rules=baseline) for kind, baseline in BASELINE_RULES.items()),
            ),
            simulated=None,
            unchecked=(),
            production=False,
        )


def load_policy(
    data: bytes, *, name: str = "policy", references: Mapping[str, ReferenceDocument] = NO_REFERENCE_DOCUMENTS
) -> Policy:
    """Read a policy from YAML or JSON; both of one content have one digest.

    ``name`` is the document's name in errors, such as the path of its file. Of ``references``, the documents of
    reference values available, only those that the policy accepts count.

    Raises:
        ConfigurationError: ``policy-unreadable`` or ``policy-invalid``, with line and column; ``references-missing``,
            ``references-not-accepted``, ``references-collide`` or ``references-revoked``.
    """
    document = read_document(data, name=name)
    try:
        policy = decode_policy(document, documents=references)
        tree = prepared(policy)
        tolerances = tolerated(policy, "gpu"), tolerated(policy, "nvswitch"), tolerated_spls(policy)
    except InvalidValueError as exc:
        raise placed(exc, data, name=name) from exc
    simulated = policy.simulated.value
    return Policy(
        name=policy.name,
        version=policy.version,
        digest=sha256(canonical_json(document)).digest(),
        tree=tree,
        simulated=simulated.reason if isinstance(simulated, RelaxedDemand) else None,
        unchecked=policy.unchecked,
        verifiers=policy.verifiers,
        gpu_tolerances=tolerances[0],
        switch_tolerances=tolerances[1],
        accepted_spls=tolerances[2],
        reference_digest=reference_digest(policy.reference_values),
    )
