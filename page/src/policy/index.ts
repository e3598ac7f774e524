/** The policy document in the page: read, judge, and make one from evidence. */

import type { Result } from "../verifier/api";
import type { Bytes } from "../verifier/bytes";
import type { Demands, Provenance } from "../verifier/provenance/provenance";
import type { FirmwareAge, OldFirmware } from "./firmware";

export { appraise } from "./appraise";
export type { AttestationResult } from "./appraise";
export { propose, rows } from "./draft";
export type { Choice, Choices, Row } from "./draft";
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
