"""Available endorsements, indexed for lookup. The pool confers no trust."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from attest.endorsements.intel import IntelDocument
from attest.endorsements.ocsp_answers import OcspAnswer
from attest.endorsements.rims import RimDocument
from attest.endorsements.x509 import Certificate, Crl


@dataclass(frozen=True, slots=True, kw_only=True)
class Endorsements:
    """Endorsements as presented: from files, caches, services or with the evidence.

    Each kind is in the order of arrival, without repetition.
    """

    certificates: tuple[Certificate, ...] = ()
    crls: tuple[Crl, ...] = ()
    documents: tuple[IntelDocument, ...] = ()
    rims: tuple[RimDocument, ...] = ()
    ocsp: tuple[OcspAnswer, ...] = ()
    _by_subject: Mapping[bytes, tuple[Certificate, ...]] = field(init=False, repr=False)
    _by_common_name: Mapping[str, tuple[Certificate, ...]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        certificates = tuple({c.der: c for c in self.certificates}.values())
        by_subject: defaultdict[bytes, list[Certificate]] = defaultdict(list)
        by_common_name: defaultdict[str, list[Certificate]] = defaultdict(list)
        for certificate in certificates:
            by_subject[certificate.subject].append(certificate)
            by_common_name[certificate.common_name or ""].append(certificate)
        object.__setattr__(self, "certificates", certificates)
        object.__setattr__(self, "crls", tuple({c.der: c for c in self.crls}.values()))
        if self.documents:
            documents = tuple({(d.body, d.signature): d for d in self.documents}.values())
            object.__setattr__(self, "documents", documents)
        if self.rims:
            object.__setattr__(self, "rims", tuple(dict.fromkeys(self.rims)))
        if self.ocsp:
            object.__setattr__(self, "ocsp", tuple({answer.der: answer for answer in self.ocsp}.values()))
        object.__setattr__(self, "_by_subject", {name: tuple(found) for name, found in by_subject.items()})
        object.__setattr__(self, "_by_common_name", {name: tuple(found) for name, found in by_common_name.items()})

    def named(self, subject: bytes) -> tuple[Certificate, ...]:
        """Return the certificates with this DER Name as subject."""
        return self._by_subject.get(subject, ())

    def with_common_name(self, name: str) -> tuple[Certificate, ...]:
        """Return the certificates with this CN in the subject."""
        return self._by_common_name.get(name, ())

    def with_certificates(self, more: Iterable[Certificate]) -> Endorsements:
        """Return these endorsements with more certificates before them."""
        added = tuple(more)
        if not added:
            return self
        return replace(self, certificates=(*added, *self.certificates))

    def merged(self, other: Endorsements) -> Endorsements:
        """Return the union of both."""
        both = EndorsementLists()
        both.add(self)
        both.add(other)
        return both.pool()


NO_ENDORSEMENTS = Endorsements()
"""The empty pool."""


class EndorsementLists:
    """Endorsements under collection, in the order of arrival."""

    def __init__(self) -> None:
        self.certificates: list[Certificate] = []
        self.crls: list[Crl] = []
        self.documents: list[IntelDocument] = []
        self.rims: list[RimDocument] = []
        self.ocsp: list[OcspAnswer] = []

    def __len__(self) -> int:
        documents = len(self.documents) + len(self.rims)
        return len(self.certificates) + len(self.crls) + documents + len(self.ocsp)

    def add(self, found: Endorsements | EndorsementLists) -> None:
        """Append others."""
        self.certificates += found.certificates
        self.crls += found.crls
        self.documents += found.documents
        self.rims += found.rims
        self.ocsp += found.ocsp

    def pool(self) -> Endorsements:
        """Return them as a pool, without repetition."""
        return Endorsements(
            certificates=tuple(self.certificates),
            crls=tuple(self.crls),
            documents=tuple(self.documents),
            rims=tuple(self.rims),
            ocsp=tuple(self.ocsp),
        )
