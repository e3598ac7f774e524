/** RFC 3339 times as vendors write them, read into milliseconds since 1970. */

import { fail } from "./errors";

const RFC3339 = /^(\d{4}-\d{2}-\d{2})T(\d{2}:\d{2}:\d{2})(\.\d{1,6})?(?:Z|([+-])(\d{2}):(\d{2}))$/i;

/** Parse an RFC 3339 date and time with its offset: `time-invalid`. Microseconds become fractions. */
export function parseMoment(text: string, what: string): number {
  const found = RFC3339.exec(text);
  const [, date, time, fraction = "0", sign, hours = "0", minutes = "0"] = found ?? [];
  const whole = Date.parse(`${date}T${time}Z`);
  // The platform's reader lets some days run over into the next month; what it writes again has to be what was given.
  const isReal = !Number.isNaN(whole) && new Date(whole).toISOString() === `${date}T${time}.000Z`;
  if (!isReal || Number(hours) > 23 || Number(minutes) > 59) {
    const [expected, got] = ["an RFC 3339 time such as 2026-01-31T12:00:00Z", text.slice(0, 40)];
    fail("malformed", "time-invalid", "", { field: what, expected, got });
  }
  const offset = (sign === "-" ? -1 : 1) * (Number(hours) * 60 + Number(minutes)) * 60_000;
  return whole + Number(fraction) * 1000 - offset;
}
