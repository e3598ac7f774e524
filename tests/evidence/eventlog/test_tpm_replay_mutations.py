"""Each bit of a TPM's log that counts, flipped, and the log cut at every length."""

import pytest

from attest.errors import BindingError, EvidenceError
from attest.evidence.eventlog.replay import require_replay
from attest_simulator.intel.eventlog import SHA1, SHA256, LogEntry
from attest_simulator.tpm_log import startup_locality, write_tpm_log
from tests.evidence.eventlog.test_tpm_replay import BOOT, UKI, parsed, quoted


@pytest.mark.parametrize("entries", [BOOT, UKI])
def test_each_flipped_bit_of_each_digest_that_counts_is_refused(entries: tuple[LogEntry, ...]) -> None:
    whole = write_tpm_log(entries, algorithms=(SHA256,))
    good, signed = parsed(whole), quoted(entries)
    for event in good.events:
        for bit in range(256):
            at = event.offset + 14 + bit // 8
            flipped = whole[:at] + bytes([whole[at] ^ 1 << bit % 8]) + whole[at + 1 :]
            with pytest.raises(BindingError):
                require_replay(parsed(flipped), signed)


def test_each_flipped_bit_of_the_locality_is_refused() -> None:
    entries = (startup_locality(3), *BOOT)
    whole = write_tpm_log(entries)
    at = whole.index(b"StartupLocality\0") + 16
    for bit in range(8):
        with pytest.raises((BindingError, EvidenceError)):
            require_replay(parsed(whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :]), quoted(entries))


def test_a_log_cut_at_every_length_is_refused() -> None:
    whole = write_tpm_log(BOOT, algorithms=(SHA1, SHA256))
    for size in range(len(whole)):
        with pytest.raises((BindingError, EvidenceError)):
            require_replay(parsed(whole[:size]), quoted(BOOT))
