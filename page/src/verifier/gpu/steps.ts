/** Every check of a device's report, in order; `nvidia.` stands before each id. */

import type { Procedure } from "../procedure";

const RIM = "nvidia-gpu.md 9.2, 12";
const RIM_SIGNATURE = "W3C XML Signature; nvidia-gpu.md 9.3";
const RIM_CHAIN = "nvidia-gpu.md 9.4";
const REVOCATION = "RFC 6960; nvidia-gpu.md 8";

export const GPU_STEPS = {
  format: ["format", "nvidia-gpu.md 2 to 4"],
  chain: ["chain", "nvidia-gpu.md 6.1, 6.2"],
  arch: ["arch", "nvidia-gpu.md 6.1, 7, 16"],
  stated_nonce: ["stated_nonce", "nvidia-gpu.md 16"],
  chain_validity: ["chain_validity", "RFC 5280, 4.1.2.5; nvidia-gpu.md 6.1"],
  signature: ["signature", "nvidia-gpu.md 5"],
  fwid: ["fwid", "nvidia-gpu.md 7"],
  leaf_binding: ["leaf_binding", "nvidia-gpu.md 7"],
  revocation: ["revocation", REVOCATION],
  driver_rim: ["driver_rim", RIM],
  driver_rim_signature: ["driver_rim_signature", RIM_SIGNATURE],
  driver_rim_chain: ["driver_rim_chain", RIM_CHAIN],
  driver_rim_revocation: ["driver_rim_revocation", REVOCATION],
  vbios_rim: ["vbios_rim", RIM],
  vbios_rim_signature: ["vbios_rim_signature", RIM_SIGNATURE],
  vbios_rim_chain: ["vbios_rim_chain", RIM_CHAIN],
  vbios_rim_revocation: ["vbios_rim_revocation", REVOCATION],
  rim_conflict: ["rim_conflict", "nvidia-gpu.md 10"],
  measurements: ["measurements", "nvidia-gpu.md 10"],
} as const;

export type GpuProcedure = Procedure<typeof GPU_STEPS>;
