/** The policy document in the page: read, judge, and make one from evidence. */

import "../verifier/shared";
import type { Result } from "../verifier/api";
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
