/** An event log beside evidence whose registers a boot is measured into: read, replayed, and what it states. */

import type { Bytes } from "../bytes";
import type { Claims } from "../claims";
import type { Registers, ReplayedLog } from "../formats";
import { factsDocument } from "./facts";
import { CCEL, TCG2_SHA256 } from "./kinds";
import { verifyEventLog } from "./replay";
import { parseEventLog } from "./structure";

/** Require that a log replays to the registers: refuses with a verification error, or that the log is malformed. */
export async function replayEventLog(data: Bytes, registers: Registers, tolerant: boolean): Promise<ReplayedLog> {
  const log = parseEventLog(data, registers.log === "ccel" ? CCEL : TCG2_SHA256);
  const verified = await verifyEventLog(log, registers.values, tolerant);
  const claims = (await factsDocument(verified)) as Claims;
  return { events: log.events.length, unjudged: verified.unjudged, claims };
}
