/** What NVIDIA's evidence is to the rest of the verifier. */

import type { Check, Unchecked } from "../checks";
import type { AttestError } from "../errors";
import type { Verified } from "../formats";
import { type NamedGpu, judgeDevices } from "./topology";
import { isVerifiedGpu } from "./verify";

export { parseGpuDevice, parseGpuReport } from "./verify";

/** Judge what the devices beside the CPU must have in common. */
export function judgeSet(
  devices: readonly (readonly [name: string, verified: Verified])[],
  unchecked: readonly Unchecked[],
): { checks: readonly Check[]; failures: readonly AttestError[] } {
  const gpus = devices.flatMap(([name, device]): NamedGpu[] => (isVerifiedGpu(device) ? [[name, device]] : []));
  return judgeDevices(gpus, unchecked);
}
