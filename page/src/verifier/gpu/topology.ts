/**
 * Several devices of one machine: different ones, asked the same question, and on a protected board all of them.
 *
 * On a board in protected-PCIe mode the links between GPUs and NVSwitches are not encrypted, so the set of devices must
 * be complete and belong together. Each names its neighbours by their PDI, and the PDI of each is in its certificate.
 *
 * Spec: specs/nvidia-gpu.md, section 14.
 */

import { hex } from "../bytes";
import { type Check, type Unchecked, check } from "../checks";
import { type AttestError, refusal } from "../errors";
import type { VerifiedGpu } from "./verify";

/** An HGX board has eight GPUs and four NVSwitches. */
const [BOARD_GPUS, BOARD_SWITCHES] = [8, 4];
const PROTECTED_PCIE_MODE = 2;
const PROTECTED_PCIE_ON = 0xaa;
const LOCKED = 1;
const MODES = ["single GPU pass-through", "multi GPU pass-through", "protected PCIe"];
const CLAUSE = "nvidia-gpu.md 14";
const UNSTATED = "not stated";

/** A device with the name of its item. */
export type NamedGpu = readonly [name: string, device: VerifiedGpu];

export interface JudgedSet {
  readonly checks: readonly Check[];
  /** One for each check that failed. */
  readonly failures: readonly AttestError[];
}

/**
 * What does not add up. `negative`: the devices contradict each other or the rule; otherwise something is only not there.
 */
type Finding = readonly [negative: boolean, expected: string, got: string];

type Judged = readonly [Check, AttestError?];

/**
 * Judge what no single device can show: that they are different, fresh together, of one mode, and complete.
 *
 * @param unchecked `topology` tolerates that devices are missing, or that a board does not say who its neighbours are;
 *   duplicates, other nonces and contradictions refuse all the same.
 */
export function judgeDevices(devices: readonly NamedGpu[], unchecked: readonly Unchecked[]): JudgedSet {
  const gpus = devices.filter(([, device]) => device.kind === "nvidia-gpu");
  const same = (id: string, code: string, of: readonly NamedGpu[], value: (device: VerifiedGpu) => string): Judged => {
    const values = distinct(of, value);
    const got = values.length > 1 ? of.map(([name, device]) => `${name}: ${value(device)}`).join(", ") : (values[0] ?? "no GPU");
    return judge(id, code, "the same in all", got, values.length > 1);
  };
  const judged: Judged[] = [];
  if (devices.length > 1) {
    const different = distinct(devices, (device) => device.identity).length;
    judged.push(
      judge("device.unique", "gpu-device-repeated", `${devices.length} different devices`, String(different), different < devices.length),
      same("device.nonce", "gpu-nonces-differ", devices, (device) => hex(device.nonce)),
      same("device.mode", "gpu-modes-differ", gpus, modeText), // a switch states none
    );
  }
  // Such devices come together, so that leaving some out is seen.
  if (gpus.length < devices.length || gpus.some(([, device]) => saysProtected(device))) {
    const switches = devices.filter(([, device]) => device.kind === "nvidia-switch");
    judged.push(topology({ gpus, switches }, unchecked));
  }
  return { checks: judged.map(([told]) => told), failures: judged.flatMap(([, failure]) => failure ?? []) };
}

function distinct(devices: readonly NamedGpu[], value: (device: VerifiedGpu) => string): string[] {
  return [...new Set(devices.map(([, device]) => value(device)))];
}

function saysProtected({ opaque }: VerifiedGpu): boolean {
  return opaque.featureFlag === PROTECTED_PCIE_MODE || opaque.protectedPcie === PROTECTED_PCIE_ON;
}

/** Build a check and, where something is wrong, the refusal that goes with it. */
function judge(id: string, code: string, expected: string, got: string, wrong: boolean): Judged {
  if (!wrong) return [check(id, "pass", expected, got, CLAUSE)];
  return [check(id, "fail", expected, got, CLAUSE), refusal("binding", code, expected, got, { check: id, clause: CLAUSE })];
}

function modeText({ opaque }: VerifiedGpu): string {
  return MODES[opaque.featureFlag ?? -1] ?? UNSTATED;
}

// -- a protected board

/** Devices of one board, sorted. */
interface Board {
  readonly gpus: readonly NamedGpu[];
  readonly switches: readonly NamedGpu[];
}

function topology(board: Board, unchecked: readonly Unchecked[]): Judged {
  const findings = RULES.flatMap((rule) => rule(board));
  const whole = `${BOARD_GPUS} GPUs and ${BOARD_SWITCHES} NVSwitches that name exactly each other`;
  const [negative, expected, got] = findings.find(([contradicts]) => contradicts) ?? findings[0] ?? [false, whole, "they do"];
  const reasons = unchecked.flatMap((decision) => (decision.check === "topology" ? [decision.reason] : []));
  if (reasons.length && findings.length && !negative) {
    return [check("topology", "not evaluated", whole, `unchecked: ${reasons.join("; ")}`, CLAUSE)];
  }
  return judge("topology", "gpu-topology-invalid", expected, got, findings.length > 0);
}

/** Count devices. One that is missing may have been left out; one too many belongs to another board. */
function counts({ gpus: { length: gpus }, switches: { length: switches } }: Board): Finding[] {
  const tell = (some: number, others: number): string => `${some} GPUs and ${others} NVSwitches`;
  if (gpus === BOARD_GPUS && switches === BOARD_SWITCHES) return [];
  return [[gpus > BOARD_GPUS || switches > BOARD_SWITCHES, tell(BOARD_GPUS, BOARD_SWITCHES), tell(gpus, switches)]];
}

/** Both fields have to say it. One alone is a contradiction; neither is a GPU that is in another mode. */
function gpusAreProtected({ gpus }: Board): Finding[] {
  return gpus.flatMap(([who, device]): Finding[] => {
    const { featureFlag, protectedPcie } = device.opaque;
    if (featureFlag === PROTECTED_PCIE_MODE && protectedPcie === PROTECTED_PCIE_ON) return [];
    const tell = (mode: string | undefined, status: number | undefined): string => `${who}: ${mode}, protected PCIe ${status ?? UNSTATED}`;
    return [[saysProtected(device), tell(MODES[PROTECTED_PCIE_MODE], PROTECTED_PCIE_ON), tell(modeText(device), protectedPcie)]];
  });
}

/** Each device of one kind names exactly the devices of the other, and all of them name the same. */
function naming(
  named: readonly NamedGpu[],
  others: readonly NamedGpu[],
  size: number,
  pdisOf: (device: VerifiedGpu) => readonly string[] | undefined,
): Finding[] {
  const present = listed(others.map(([, device]) => pdi(device))) ?? [];
  const stated = named.map(([who, device]) => [who, listed(pdisOf(device))] as const);
  const first = stated.find(([, pdis]) => pdis)?.[1];
  return stated.flatMap(([who, pdis]): Finding[] => {
    if (!pdis || !first) return [[false, `${who}: ${size} neighbours`, UNSTATED]];
    // Two halves of two boards make no board. Sets are compared, never numbers of links: those differ.
    const contradicts = String(pdis) !== String(first) || pdis.length !== size || !present.every((one) => pdis.includes(one));
    return contradicts || pdis.length !== present.length ? [[contradicts, `${who}: ${present.join(", ")}`, pdis.join(", ")]] : [];
  });
}

/** Each id once and in order, without the links that are off. */
function listed(pdis: readonly string[] | undefined): readonly string[] | undefined {
  return pdis && [...new Set(pdis)].filter((one) => /[^0]/.test(one)).sort();
}

function pdi({ identity }: VerifiedGpu): string {
  return identity.slice(2);
}

/** A switch states what it has to. */
function stating({ switches }: Board, wanted: (device: VerifiedGpu) => readonly [expected: unknown, got: unknown]): Finding[] {
  return switches.flatMap(([who, device]): Finding[] => {
    const [expected, got] = wanted(device);
    return expected === got ? [] : [[got !== undefined, `${who}: ${expected}`, String(got ?? UNSTATED)]];
  });
}

const RULES: readonly ((board: Board) => Finding[])[] = [
  counts,
  gpusAreProtected,
  ({ gpus, switches }) => naming(gpus, switches, BOARD_SWITCHES, (device) => device.opaque.switchPdis),
  ({ gpus, switches }) => naming(switches, gpus, BOARD_GPUS, (device) => device.opaque.gpuPdis),
  (board) => stating(board, (device) => [pdi(device), device.opaque.ownPdi]),
  (board) => stating(board, (device) => [LOCKED, device.opaque.lockStatus]),
  ({ gpus }) => {
    const drivers = distinct(gpus, (device) => device.driverVersion ?? UNSTATED);
    return drivers.length > 1 ? [[true, "one driver version", drivers.join(", ")]] : [];
  },
];
