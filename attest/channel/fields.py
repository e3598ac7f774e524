"""Fields of the channel inside the encryption: the request's date, the accepted evidence, and refusals.

::

    date              required: IMF-fixdate, the client's clock
    attest-evidence   base64url of 32 bytes: the evidence that the client accepted, see ``records``
    attest-refused    in an answer: the gateway refused, and the application did not receive the request
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Final

from attest.channel.messages import Fields, field_values

DATE: Final = b"date"
EVIDENCE: Final = b"attest-evidence"
REFUSED: Final = b"attest-refused"
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_IMF_FIXDATE = re.compile(rb"[A-Z][a-z]{2}, (\d{2}) ([A-Z][a-z]{2}) (\d{4}) (\d{2}):(\d{2}):(\d{2}) GMT")


def refusal_code(fields: Fields) -> str | None:
    """Return the code of the gateway's refusal, or None for an answer of the application."""
    values = field_values(fields, REFUSED)
    return values[0].decode("ascii", errors="replace") if values else None


def http_date(moment: datetime) -> bytes:
    """Format a moment as IMF-fixdate (RFC 9110, section 5.6.7)."""
    return format_datetime(moment.astimezone(UTC), usegmt=True).encode()


def parse_http_date(text: bytes) -> datetime | None:
    """Parse an IMF-fixdate; None if malformed or not in the calendar."""
    found = _IMF_FIXDATE.fullmatch(text)
    if not found or (month := found[2].decode()) not in _MONTHS:
        return None
    day, year, hour, minute, second = (int(found[number]) for number in (1, 3, 4, 5, 6))
    try:
        moment = datetime(year, _MONTHS.index(month) + 1, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None
    return moment if http_date(moment) == text else None
