"""dstack's evidence beside a TD quote: the event log in JSON, app-compose, and unsigned statements."""

from __future__ import annotations
