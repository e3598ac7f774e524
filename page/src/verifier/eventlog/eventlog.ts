/** Module that is loaded for an event log of evidence with boot registers. */

import type { Bytes } from "../bytes";
import type { Claims } from "../claims";
import type { Registers } from "../evidence";
import { factsDocument } from "./facts";
import { CCEL, TCG2_SHA256 } from "./kinds";
import { verifyEventLog } from "./replay";
import { parseEventLog } from "./structure";

/** Statements of a log that replays. */
export interface ReplayedLog {
  readonly events: number;
  /** Registers that were not compared, under a tolerance. */
  readonly unjudged: readonly string[];
  readonly claims: Claims;
}

/** Read a log: `eventlog-malformed`. What comes back requires that it replays to the registers. */
export function readEventLog(
  data: Bytes,
  { log: kind, values }: Registers,
): (tolerant: boolean) => Promise<ReplayedLog> {
  const log = parseEventLog(data, kind === "ccel" ? CCEL : TCG2_SHA256);
  return async (tolerant) => {
    const verified = await verifyEventLog(log, values, tolerant);
    return { events: log.events.length, unjudged: verified.unjudged, claims: await factsDocument(verified) };
  };
}
