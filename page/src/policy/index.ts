/** The policy document in the page: read, judge, and make one from evidence. */

import type { Result } from "../verifier/api";
import type { Bytes } from "../verifier/bytes";
import type { Demands, Provenance } from "../verifier/provenance/provenance";
import type { Policy } from "./document";
import type { JudgedRows } from "./draft";
import type { FirmwareAge, OldFirmware } from "./firmware";
import type { Choices } from "./row";

export { appraise } from "./appraise";
export type { AttestationResult } from "./appraise";
export type { Choice, Choices, Row } from "./row";
/** The rows of evidence under a policy, or under none, with those of old firmware. */
export async function rows(result: Result, policy: Policy | undefined, at: number): Promise<JudgedRows> {
  const [draft, { firmwareRows }] = await Promise.all([import("./draft"), import("./firmware")]);
  const { rows: found, judged } = await draft.rows(result, policy, at);
  return { rows: [...found, ...firmwareRows(result)], judged };
}

/** Write the policy that accepts what was chosen, over the one that is there. */
export const propose = async (
  result: Result,
  choices: Choices,
  before: Policy | undefined,
  at: number,
): Promise<string> => (await import("./draft")).propose(result, choices, before, at);

export const oldFirmware = async (result: Result): Promise<OldFirmware[]> =>
  (await import("./firmware")).oldFirmware(result);
export const firmwareAges = async (result: Result, kind: string): Promise<FirmwareAge[]> =>
  (await import("./firmware")).firmwareAges(result, new RegExp(kind));
export type { FirmwareAge, OldFirmware } from "./firmware";
export { loadPolicy } from "./document";
export { filesOf, together } from "./kept";
export type { Policy } from "./document";
export type { PolicyCheck } from "./rules";
export const verifyProvenance = async (data: Bytes, demands: Demands): Promise<Provenance> =>
  (await import("../verifier/provenance/provenance")).verifyProvenance(data, demands);
