"""Keys are overwritten in memory as soon as a release is over, however it ended."""

from dataclasses import dataclass, field, replace

import pytest

from attest.errors import VerificationError
from kms.domain.errors import ReleaseDeniedError
from kms.domain.kek import KeyEncryptionKey
from kms.domain.keys import WrapContext, Wrapped
from kms.domain.secret import EXPORT, SecretBytes
from kms.release.service import ReleaseService
from tests.kms.support import Harness, Workload, open_release


@dataclass
class Watched:
    """A key-encryption key that remembers what it opened."""

    kek: KeyEncryptionKey
    opened: list[SecretBytes] = field(default_factory=list)

    @property
    def id(self) -> bytes:
        return self.kek.id

    def wrap(self, secret: SecretBytes, *, context: WrapContext) -> Wrapped:
        return self.kek.wrap(secret, context=context)

    def unwrap(self, wrapped: Wrapped, *, context: WrapContext) -> SecretBytes:
        self.opened.append(self.kek.unwrap(wrapped, context=context))
        return self.opened[-1]

    def require_wiped(self, count: int) -> None:
        assert len(self.opened) == count
        for secret in self.opened:
            with pytest.raises(ValueError, match="wiped"):
                secret.lend(EXPORT, bytes)


@pytest.fixture
def watched(harness: Harness) -> Watched:
    harness.add_key("model")
    harness.add_key("second")
    kek = Watched(harness.services.kek)
    harness.releases = ReleaseService(replace(harness.services, kek=kek))  # type: ignore[arg-type]  # no key ring
    return kek


def test_keys_are_wiped_when_they_were_sealed(harness: Harness, watched: Watched) -> None:
    workload, challenge = Workload(), harness.releases.challenge()
    request = workload.request(challenge, "model", "second")
    release = harness.releases.release(request)
    watched.require_wiped(2)
    assert set(open_release(workload, challenge, request, release, harness)) == {"model", "second"}


def test_keys_are_wiped_when_they_cannot_be_sealed(harness: Harness, watched: Watched) -> None:
    workload = Workload(public=b"\x00\x20" + bytes(31))
    with pytest.raises(VerificationError):
        harness.releases.release(workload.request(harness.releases.challenge(), "model"))
    watched.require_wiped(1)


def test_keys_are_wiped_when_the_decision_turns_into_a_no(harness: Harness, watched: Watched) -> None:
    request = replace(Workload().request(harness.releases.challenge(), "model"), renews=("no such lease",))
    with pytest.raises(ReleaseDeniedError):
        harness.releases.release(request)
    watched.require_wiped(1)
