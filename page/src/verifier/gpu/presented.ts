/** One device as it presents itself. */

import type { AttestError } from "../errors";
import type { Given, Tolerances } from "../evidence";
import type { DeviceModel, GpuLeaf } from "./certificates";
import type { DevicePath } from "./chain";
import type { ParsedGpuEvidence } from "./evidence";

/** One device as presented: nothing of it is trusted. A refusal stands where something cannot be read. */
export interface PresentedDevice {
  readonly evidence: ParsedGpuEvidence;
  readonly path: DevicePath;
  readonly given: Given;
  /** Undefined where the path does not begin with a leaf and is not complete. */
  readonly leaf: GpuLeaf | AttestError | undefined;
  /** Type byte and PDI in hex. */
  readonly identity: string | AttestError | undefined;
  /** Statement of its L4; until the chain is verified, it only selects RIMs and tolerances. */
  readonly model: DeviceModel | AttestError | undefined;
}

export const isSwitch = ({ kind }: DeviceModel): boolean => kind === "nvidia-switch";

/** Tolerances for a device of this kind; a device of an unknown kind counts as a GPU. */
export function tolerancesOf({ given, model }: PresentedDevice): Tolerances {
  const isOfSwitch = model !== undefined && "product" in model && isSwitch(model);
  return given.tolerances[isOfSwitch ? "switches" : "gpus"];
}
