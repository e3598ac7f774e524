"""Available endorsements, indexed for lookup. The pool confers no trust."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any

from attest.endorsements.intel import IntelDocument
from attest.endorsements.ocsp_answers import OcspAnswer
from attest.endorsements.rims import RimDocument
from attest.endorsements.x509 import Certificate, Crl


@dataclass(frozen=True, slots=True, kw_only=True)
class Endorsements:
    """Endorsements as presented: from files, caches, services or with the evidence.

    Each kind is in the order of its bytes, without repetition: the order of arrival decides nothing.
    """

    certificates: tuple[Certificate, ...] = ()
    crls: tuple[Crl, ...] = ()
    documents: tuple[IntelDocument, ...] = ()
    rims: tuple[RimDocument, ...] = ()
    ocsp: tuple[OcspAnswer, ...] = ()
    _by_subject: Mapping[bytes, tuple[Certificate, ...]] = field(init=False, repr=False)
    _by_common_name: Mapping[str, tuple[Certificate, ...]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        for name, key in _KEYS.items():
            entries = getattr(self, name)
            if entries:
                unique = {key(entry): entry for entry in entries}
                object.__setattr__(self, name, tuple(unique[found] for found in sorted(unique)))
        by_subject: defaultdict[bytes, list[Certificate]] = defaultdict(list)
        by_common_name: defaultdict[str, list[Certificate]] = defaultdict(list)
        for certificate in self.certificates:
            by_subject[certificate.subject].append(certificate)
            by_common_name[certificate.common_name or ""].append(certificate)
        object.__setattr__(self, "_by_subject", {name: tuple(found) for name, found in by_subject.items()})
        object.__setattr__(self, "_by_common_name", {name: tuple(found) for name, found in by_common_name.items()})

    def named(self, subject: bytes) -> tuple[Certificate, ...]:
        """Return the certificates with this DER Name as subject."""
        return self._by_subject.get(subject, ())

    def with_common_name(self, name: str) -> tuple[Certificate, ...]:
        """Return the certificates with this CN in the subject."""
        return self._by_common_name.get(name, ())

    def with_certificates(self, more: Iterable[Certificate]) -> Endorsements:
        """Return these endorsements with more certificates."""
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


_KEYS: Mapping[str, Callable[[Any], bytes]] = {  # Any: each of the entries of its own field
    "certificates": attrgetter("der"),
    "crls": attrgetter("der"),
    "documents": lambda document: document.signature + document.body,
    "rims": attrgetter("xml"),
    "ocsp": attrgetter("der"),
}
"""The bytes of an entry, which identify and order it."""

NO_ENDORSEMENTS = Endorsements()
"""The empty pool."""


class EndorsementLists:
    """Endorsements under collection; of equal ones the pool keeps the last."""

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
