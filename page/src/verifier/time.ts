/** Times as vendors write them, read into milliseconds since 1970. */

import { need } from "./errors";

/** The years 1 to 9999: dates of four digits, which every program can write. */
const FIRST = -62135596800000;
const LAST = 253402300799999;

const MINUTE_MS = 60_000;
const RFC_3339 = /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(\.\d{1,6})?(?:Z|([+-])(\d\d):(\d\d))$/i;

/**
 * A moment of UTC written as `2026-01-31T12:00:00`; undefined for other text, and for what does not exist (30
 * February).
 */
export function momentOf(text: string): number | undefined {
  const moment = Date.parse(`${text}Z`);
  // The platform's reader lets some days run over into the next month; what it writes again has to be what was given.
  return moment >= FIRST && new Date(moment).toISOString() === `${text}.000Z` ? moment : undefined;
}

/** Parse an RFC 3339 date and time with its offset: `time-invalid`. Microseconds become fractions. */
export function parseMoment(text: string, field: string): number {
  const [, date = "", time = "", fraction = "0", sign = "+", hours = "0", minutes = "0"] = RFC_3339.exec(text) ?? [];
  // A moment that does not exist is no number, which is within no bounds.
  const local = momentOf(`${date}T${time}`) ?? Number.NaN;
  const moment = local + Number(fraction) * 1000 - offsetOf(sign, Number(hours), Number(minutes));
  need(moment >= FIRST && moment <= LAST, "malformed", "time-invalid", "RFC 3339", text.slice(0, 40), { field });
  return moment;
}

/** Milliseconds in front of UTC; no number for an offset that does not exist. */
function offsetOf(sign: string, hours: number, minutes: number): number {
  if (hours > 23 || minutes > 59) return Number.NaN;
  const offset = (hours * 60 + minutes) * MINUTE_MS;
  return sign === "-" ? -offset : offset;
}
