/** Every check of a device's report, in order; `nvidia.` stands before each id. */

import type { Procedure } from "../procedure";

const RIM = "TCG Reference Integrity Manifest; NVIDIA nvtrust, version checks";
const RIM_SIGNATURE = "W3C XML Signature";
const RIM_CHAIN = "NVIDIA nvtrust, RIM certificates; RFC 5280, 6.1";
const REVOCATION = "RFC 6960";

export const GPU_STEPS = {
  format: ["format", "DMTF DSP0274, MEASUREMENTS; NVIDIA nvtrust, opaque data"],
  chain: ["chain", "NVIDIA nvtrust, device certificates; RFC 5280, 6.1"],
  arch: ["arch", "NVIDIA nvtrust, device certificates and architecture"],
  stated_nonce: ["stated_nonce", "NVIDIA nvtrust, evidence as JSON"],
  chain_validity: ["chain_validity", "RFC 5280, 4.1.2.5"],
  signature: ["signature", "DMTF DSP0274, signature of MEASUREMENTS"],
  fwid: ["fwid", "TCG DICE Attestation Architecture, TcbInfo"],
  leaf_binding: ["leaf_binding", "TCG DICE Attestation Architecture, TcbInfo"],
  revocation: ["revocation", REVOCATION],
  driver_rim: ["driver_rim", RIM],
  driver_rim_signature: ["driver_rim_signature", RIM_SIGNATURE],
  driver_rim_chain: ["driver_rim_chain", RIM_CHAIN],
  driver_rim_revocation: ["driver_rim_revocation", REVOCATION],
  vbios_rim: ["vbios_rim", RIM],
  vbios_rim_signature: ["vbios_rim_signature", RIM_SIGNATURE],
  vbios_rim_chain: ["vbios_rim_chain", RIM_CHAIN],
  vbios_rim_revocation: ["vbios_rim_revocation", REVOCATION],
  rim_conflict: ["rim_conflict", "TCG Reference Integrity Manifest; NVIDIA nvtrust, comparison of measurements"],
  measurements: ["measurements", "TCG Reference Integrity Manifest; NVIDIA nvtrust, comparison of measurements"],
} as const;

export type GpuProcedure = Procedure<typeof GPU_STEPS>;
