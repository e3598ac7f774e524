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
import { AttestError } from "../errors";
import { numeral } from "./opaque";
import type { VerifiedGpu } from "./verify";

/** An HGX board has eight GPUs and four NVSwitches. */
const [BOARD_GPUS, BOARD_SWITCHES] = [8, 4];
const PROTECTED_PCIE_MODE = 2;
const PROTECTED_PCIE_ON = 0xaa;
const LOCKED = 1;
const MODES = ["single GPU pass-through", "multi GPU pass-through", "protected PCIe"];
const CLAUSE = "nvidia-gpu.md 14";

/** A device with the name of its item. */
export type NamedGpu = readonly [name: string, device: VerifiedGpu];

export interface JudgedSet {
  readonly checks: readonly Check[];
  /** One for each check that failed. */
  readonly failures: readonly AttestError[];
}

/** What does not add up. */
interface Finding {
  /** The devices contradict each other or the rule; otherwise something is only not there. */
  readonly negative: boolean;
  readonly problem: string;
  readonly expected: string;
  readonly got: string;
}

type Judged = readonly [Check, AttestError?];

/**
 * Judge what no single device can show: that they are different, fresh together, of one mode, and complete.
 *
 * @param unchecked `topology` tolerates that devices are missing, or that a board does not say who its neighbours are;
 *   duplicates, other nonces and contradictions refuse all the same.
 */
export function judgeDevices(devices: readonly NamedGpu[], unchecked: readonly Unchecked[]): JudgedSet {
  const judged: Judged[] = devices.length > 1 ? [unique(devices), nonce(devices), mode(devices)] : [];
  // Such devices come together, so that leaving some out is seen.
  const board = devices.some(([, device]) => device.kind === "nvidia-switch" || saysProtected(device));
  if (board) judged.push(topology(devices, unchecked));
  return { checks: judged.map(([told]) => told), failures: judged.flatMap(([, failure]) => failure ?? []) };
}

function saysProtected({ opaque }: VerifiedGpu): boolean {
  return opaque.featureFlag === PROTECTED_PCIE_MODE || opaque.protectedPcie === PROTECTED_PCIE_ON;
}

/** Build a check and, where there is a problem, the refusal that goes with it. */
function judge(id: string, code: string, expected: string, got: string, problem?: string): Judged {
  if (problem === undefined) return [check(id, "pass", expected, got, CLAUSE)];
  const failure = new AttestError("binding", code, problem, { check: id, expected, got, clause: CLAUSE });
  return [check(id, "fail", expected, got, CLAUSE), failure];
}

// -- any two devices

function unique(devices: readonly NamedGpu[]): Judged {
  const all = devices.map(([, device]) => device.identity);
  const count = new Set(all).size;
  const twice = all.find((identity, position) => all.indexOf(identity) !== position);
  const expected = `${devices.length} different devices`;
  if (twice === undefined) return judge("device.unique", "gpu-device-repeated", expected, `${count} different devices`);
  const names = devices.filter(([, device]) => device.identity === twice).map(([name]) => name);
  const problem = `${names.join(" and ")} are ${twice}`;
  const got = `${count} different devices, ${problem}`;
  return judge("device.unique", "gpu-device-repeated", expected, got, `the same device stands twice: ${problem}`);
}

function nonce(devices: readonly NamedGpu[]): Judged {
  const [[firstName, first]] = devices as readonly [NamedGpu];
  const wanted = hex(first.nonce);
  const other = devices.find(([, device]) => hex(device.nonce) !== wanted);
  const expected = `one nonce, ${wanted} as in ${firstName}`;
  if (!other) return judge("device.nonce", "gpu-nonces-differ", expected, `${wanted} in all`);
  const got = `${hex(other[1].nonce)} in ${other[0]}`;
  const problem = `${firstName} and ${other[0]} answer different challenges`;
  return judge("device.nonce", "gpu-nonces-differ", expected, got, problem);
}

/** Compare the GPUs' modes; a switch states none. */
function mode(devices: readonly NamedGpu[]): Judged {
  const modes = devices.filter(([, device]) => device.kind === "nvidia-gpu").map(([name, device]) => [name, modeText(device)] as const);
  const different = [...new Set(modes.map(([, text]) => text))].sort();
  const expected = "one mode in all GPUs (feature flag, opaque data type 36)";
  if (different.length < 2) return judge("device.mode", "gpu-modes-differ", expected, different[0] ?? "no GPU");
  const got = modes.map(([name, text]) => `${name}: ${text}`).join(", ");
  return judge("device.mode", "gpu-modes-differ", expected, got, `the GPUs are in different modes: ${different.join(" and ")}`);
}

function modeText({ opaque }: VerifiedGpu): string {
  return MODES[opaque.featureFlag ?? -1] ?? "not stated";
}

// -- a protected board

/** Devices of one board, sorted. */
interface Board {
  readonly gpus: readonly NamedGpu[];
  readonly switches: readonly NamedGpu[];
}

function topology(devices: readonly NamedGpu[], unchecked: readonly Unchecked[]): Judged {
  const board = {
    gpus: devices.filter(([, device]) => device.kind === "nvidia-gpu"),
    switches: devices.filter(([, device]) => device.kind === "nvidia-switch"),
  };
  const findings = RULES.flatMap((rule) => rule(board));
  const first = findings.find((finding) => finding.negative) ?? findings[0];
  const expected = `${BOARD_GPUS} GPUs and ${BOARD_SWITCHES} NVSwitches that name exactly each other`;
  if (!first) return judge("topology", "gpu-topology-invalid", expected, "they do");
  const reasons = unchecked.flatMap((decision) => (decision.check === "topology" ? [decision.reason] : []));
  if (reasons.length && !first.negative) {
    return [check("topology", "not evaluated", expected, `unchecked: ${reasons.join("; ")}`, CLAUSE)];
  }
  return judge("topology", "gpu-topology-invalid", first.expected, first.got, first.problem);
}

/** Count devices. One that is missing may have been left out; one too many belongs to another board. */
function counts({ gpus, switches }: Board): Finding[] {
  if (gpus.length === BOARD_GPUS && switches.length === BOARD_SWITCHES) return [];
  return [
    {
      negative: gpus.length > BOARD_GPUS || switches.length > BOARD_SWITCHES,
      problem: "a protected board has other numbers of GPUs and NVSwitches",
      expected: `${BOARD_GPUS} GPUs and ${BOARD_SWITCHES} NVSwitches`,
      got: `${gpus.length} GPUs and ${switches.length} NVSwitches`,
    },
  ];
}

/** Both fields have to say it. One alone is a contradiction; neither is a GPU that is in another mode. */
function gpusAreProtected({ gpus }: Board): Finding[] {
  return gpus.flatMap(([name, device]) => {
    const { featureFlag, protectedPcie } = device.opaque;
    if (featureFlag === PROTECTED_PCIE_MODE && protectedPcie === PROTECTED_PCIE_ON) return [];
    return {
      negative: saysProtected(device),
      problem: `${name} is not in protected-PCIe mode (opaque data types 36 and 21)`,
      expected: `${MODES[PROTECTED_PCIE_MODE]}, protected PCIe ${numeral(PROTECTED_PCIE_ON)}`,
      got: `${modeText(device)}, protected PCIe ${protectedPcie === undefined ? "not stated" : numeral(protectedPcie)}`,
    };
  });
}

/** Each device of one kind names exactly the devices of the other, and all of them name the same. */
function name(
  named: readonly NamedGpu[],
  kind: string,
  there: readonly NamedGpu[],
  size: number,
  pdisOf: (device: VerifiedGpu) => readonly string[] | undefined,
): Finding[] {
  const present = listed(there.map(([, device]) => pdi(device)));
  const stated = named.map(([who, device]) => [who, listed(pdisOf(device))] as const);
  const first = stated.find(([, pdis]) => pdis);
  // Two halves of two boards make no board.
  const opinions = stated.flatMap(([who, pdis]): Finding[] => {
    if (!first || !pdis || String(pdis) === String(first[1])) return [];
    return [{ negative: true, problem: `${who} names other ${kind} than ${first[0]}`, expected: shown(first[1]), got: shown(pdis) }];
  });
  return [...opinions, ...stated.flatMap(([who, pdis]) => neighbours(who, kind, pdis, present ?? [], size))];
}

/** Compare sets, never numbers of links: those differ from device to device. */
function neighbours(
  who: string,
  kind: string,
  named: readonly string[] | undefined,
  present: readonly string[],
  size: number,
): Finding[] {
  if (!named) {
    return [{ negative: false, problem: `${who} names no ${kind}`, expected: `the ids of ${size} ${kind}`, got: "none stated" }];
  }
  if (named.length !== size || !present.every((one) => named.includes(one))) {
    const expected = `${size} ${kind}, among them ${shown(present)}`;
    return [{ negative: true, problem: `${who} names other ${kind} than those that are there`, expected, got: shown(named) }];
  }
  if (named.length === present.length) return [];
  return [{ negative: false, problem: `${who} names ${kind} that are not there`, expected: shown(named), got: shown(present) }];
}

/** Each id once and in order, without the links that are off. */
function listed(pdis: readonly string[] | undefined): readonly string[] | undefined {
  return pdis && [...new Set(pdis)].filter((one) => /[^0]/.test(one)).sort();
}

function shown(pdis: readonly string[] | undefined): string {
  return pdis?.join(", ") || "none";
}

function pdi({ identity }: VerifiedGpu): string {
  return identity.slice(2);
}

/** A switch calls itself by the id in its certificate, and is locked. */
function switchesAreThemselves({ switches }: Board): Finding[] {
  return switches.flatMap(([who, device]) => {
    const own = device.opaque.ownPdi;
    if (own === pdi(device)) return [];
    const problem = `${who} calls itself otherwise than its certificate does`;
    return { negative: own !== undefined, problem, expected: pdi(device), got: own ?? "not stated" };
  });
}

function switchesAreLocked({ switches }: Board): Finding[] {
  return switches.flatMap(([who, { opaque: { lockStatus } }]) => {
    if (lockStatus === LOCKED) return [];
    const problem = `${who} is not locked (opaque data type 25)`;
    return { negative: lockStatus !== undefined, problem, expected: String(LOCKED), got: String(lockStatus ?? "not stated") };
  });
}

function oneDriver({ gpus }: Board): Finding[] {
  const versions = [...new Set(gpus.map(([, device]) => device.driverVersion ?? "not stated"))].sort();
  if (versions.length < 2) return [];
  const problem = "the GPUs of a protected board run different drivers";
  return [{ negative: true, problem, expected: "one driver version", got: versions.join(", ") }];
}

const RULES: readonly ((board: Board) => Finding[])[] = [
  counts,
  gpusAreProtected,
  ({ gpus, switches }) => name(gpus, "NVSwitches", switches, BOARD_SWITCHES, (device) => device.opaque.switchPdis),
  ({ gpus, switches }) => name(switches, "GPUs", gpus, BOARD_GPUS, (device) => device.opaque.gpuPdis),
  switchesAreThemselves,
  switchesAreLocked,
  oneDriver,
];
