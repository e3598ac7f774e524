"""A simulated trust domain and a simulated enclave, with quotes from their platform.

Invalid quotes are explicit: a field of the report or of the header can be overridden before
signing, and ``quote_template`` returns all other parts for changes.

Spec: specs/intel-tdx-sgx.md, sections 3, 16 and 19.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from attest_simulator.intel.eventlog import LogEntry, MeasuredEvent, replayed, typical_boot, write_event_log
from attest_simulator.intel.keys import derived_bytes
from attest_simulator.intel.machine import SimulatedPlatform
from attest_simulator.intel.quote_template import QuoteTemplate, Values, sgx_report
from attest_simulator.intel.structure import TD_REPORTS

REPORT_DATA_BYTES: Final = 64
TD_DEBUG: Final = 1 << 0
SEPT_VE_DISABLE: Final = 1 << 28

_XFAM = 0x602E7
"""Value in most real TDs."""
_ENCLAVE_ATTRIBUTES = bytes.fromhex("0500000000000000e700000000000000")
"""INIT and MODE64BIT; XFRM 0xE7."""
_SGX_BODY = 1
_TD_1_0, _TD_1_5 = 2, 3


def _require_report_data(report_data: bytes) -> None:
    if len(report_data) != REPORT_DATA_BYTES:
        raise ValueError(f"REPORTDATA has {REPORT_DATA_BYTES} bytes, got {len(report_data)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedTd:
    """A confidential virtual machine on a simulated platform at one moment.

    Attributes:
        platform: its machine.
        log: measurements since its creation, in order.
        mr_td: build-time measurement, 48 bytes.
        td_attributes: TDATTRIBUTES, 64 bits.
        xfam: XFAM, 64 bits.
        mr_config_id: 48 bytes, set by the host or owner at creation.
        mr_owner: 48 bytes.
        mr_owner_config: 48 bytes.
        mr_service_td: 48 bytes, hash of bound service TDs; in bodies of type 3 and 4.
        tee_tcb_svn_2: 16 bytes, SVN of the running module; None: unchanged since the start.
    """

    platform: SimulatedPlatform
    log: tuple[LogEntry, ...] = typical_boot()
    mr_td: bytes = derived_bytes(48, "MRTD")
    td_attributes: int = SEPT_VE_DISABLE
    xfam: int = _XFAM
    mr_config_id: bytes = bytes(48)
    mr_owner: bytes = bytes(48)
    mr_owner_config: bytes = bytes(48)
    mr_service_td: bytes = bytes(48)
    tee_tcb_svn_2: bytes | None = None

    @property
    def rtmrs(self) -> tuple[bytes, bytes, bytes, bytes]:
        """RTMR0 to RTMR3 after the log, 48 bytes each."""
        return replayed(self.log)

    def extend(self, rtmr: int, event: MeasuredEvent) -> SimulatedTd:
        """Return this TD after one more event.

        Args:
            rtmr: 0 to 3; applications use 3.
            event: to measure and log.

        Raises:
            ValueError: another register.
        """
        if rtmr not in range(4):
            raise ValueError(f"RTMR{rtmr}: expected 0 to 3")
        return replace(self, log=(*self.log, LogEntry(index=rtmr + 1, event=event)))

    def event_log(self, *, size: int | None = None) -> bytes:
        """Return the log in CCEL form.

        Args:
            size: bytes of the log area, filled with 0xFF; None ends the log with its last record.
        """
        return write_event_log(self.log, size=size)

    def report(self, report_data: bytes, *, body_type: int = _TD_1_0, override: Values | None = None) -> bytes:
        """Return a TD report in the form of quotes: 584, 648 or 885 bytes.

        Args:
            report_data: 64 bytes to commit to.
            body_type: 2, 3 or 4.
            override: fields to replace, by the names of ``structure.TD_REPORTS``.

        Raises:
            ValueError: ``report_data`` is not 64 bytes, or an invalid type, name or value.
        """
        _require_report_data(report_data)
        if body_type not in TD_REPORTS:
            raise ValueError(f"body type {body_type}: expected 2, 3 or 4")
        layout = TD_REPORTS[body_type]
        values: dict[str, int | bytes] = {row.name: bytes(row.size) if row.kind == "bytes" else 0 for row in layout}
        known = {name: value for name, value in self._values(report_data).items() if name in values}
        return layout.encode(values | known | dict(override or {}))

    def quote_template(
        self,
        report_data: bytes,
        *,
        version: int = 4,
        body_type: int | None = None,
        override: Values | None = None,
        header: Values | None = None,
    ) -> QuoteTemplate:
        """Return an unsigned quote.

        Args:
            report_data: 64 bytes to commit to.
            version: 4 or 5.
            body_type: 2, 3 or 4; None is 2 for version 4, the only one, and 3 for version 5.
            override: fields of the report to replace.
            header: fields of the header to replace.

        Raises:
            ValueError: as ``report``.
        """
        kind = body_type or (_TD_1_5 if version == 5 else _TD_1_0)
        body = self.report(report_data, body_type=kind, override=override)
        return self.platform.quote_template(body, tee="tdx", version=version, body_type=kind, header=header)

    def quote(
        self,
        report_data: bytes,
        *,
        version: int = 4,
        body_type: int | None = None,
        override: Values | None = None,
        header: Values | None = None,
    ) -> bytes:
        """Return a signed quote; arguments and errors as ``quote_template``."""
        template = self.quote_template(
            report_data, version=version, body_type=body_type, override=override, header=header
        )
        return template.issue()

    def _values(self, report_data: bytes) -> Values:
        """Return every field of any body type that is nonzero by default."""
        platform = self.platform
        rtmr0, rtmr1, rtmr2, rtmr3 = self.rtmrs
        return {
            "tee_tcb_svn": platform.tee_tcb_svn,
            "mr_seam": platform.mr_seam,
            "td_attributes": self.td_attributes,
            "xfam": self.xfam,
            "mr_td": self.mr_td,
            "mr_config_id": self.mr_config_id,
            "mr_owner": self.mr_owner,
            "mr_owner_config": self.mr_owner_config,
            "rtmr0": rtmr0,
            "rtmr1": rtmr1,
            "rtmr2": rtmr2,
            "rtmr3": rtmr3,
            "report_data": report_data,
            "tee_tcb_svn_2": platform.tee_tcb_svn if self.tee_tcb_svn_2 is None else self.tee_tcb_svn_2,
            "mr_service_td": self.mr_service_td,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedEnclave:
    """An SGX enclave on a simulated platform.

    Attributes:
        platform: its machine.
        mr_enclave: 32 bytes.
        mr_signer: 32 bytes.
        isv_prod_id: 16 bits.
        isv_svn: 16 bits.
        attributes: 16 bytes: flags and XFRM, little-endian; bit 1 of the flags is DEBUG.
    """

    platform: SimulatedPlatform
    mr_enclave: bytes = derived_bytes(32, "MRENCLAVE")
    mr_signer: bytes = derived_bytes(32, "MRSIGNER")
    isv_prod_id: int = 1
    isv_svn: int = 1
    attributes: bytes = _ENCLAVE_ATTRIBUTES

    def report(self, report_data: bytes, *, override: Values | None = None) -> bytes:
        """Return the enclave's report, 384 bytes.

        Raises:
            ValueError: ``report_data`` is not 64 bytes, or an invalid name or value for ``structure.SGX_REPORT``.
        """
        _require_report_data(report_data)
        values: dict[str, int | bytes] = {
            "cpu_svn": self.platform.sgx.cpu_svn,
            "attributes": self.attributes,
            "mr_enclave": self.mr_enclave,
            "mr_signer": self.mr_signer,
            "isv_prod_id": self.isv_prod_id,
            "isv_svn": self.isv_svn,
            "report_data": report_data,
        }
        return sgx_report(values | dict(override or {}))

    def quote_template(
        self, report_data: bytes, *, version: int = 3, override: Values | None = None, header: Values | None = None
    ) -> QuoteTemplate:
        """Return an unsigned quote of version 3, 4 or 5; ``override`` and errors as ``report``."""
        body = self.report(report_data, override=override)
        return self.platform.quote_template(body, tee="sgx", version=version, body_type=_SGX_BODY, header=header)

    def quote(
        self, report_data: bytes, *, version: int = 3, override: Values | None = None, header: Values | None = None
    ) -> bytes:
        """Return a signed quote; arguments and errors as ``quote_template``."""
        return self.quote_template(report_data, version=version, override=override, header=header).issue()
