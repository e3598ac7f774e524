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
import { AttestError, refusal } from "../errors";
import type { Verified } from "../formats";
import type { VerifiedGpu } from "./verify";

/** An HGX board has eight GPUs and four NVSwitches. */
const [BOARD_GPUS, BOARD_SWITCHES] = [8, 4];
const PROTECTED_PCIE_MODE = 2;
const PROTECTED_PCIE_ON = 0xaa;
const LOCKED = 1;
const CLAUSE = "nvidia-gpu.md 14";

/** A device with the name of its item. */
type NamedGpu = readonly [name: string, device: VerifiedGpu];

/** One refusal for each check that failed. */
export interface JudgedSet {
  readonly checks: readonly Check[];
  readonly failures: readonly AttestError[];
}

/**
 * What does not add up. `negative`: the devices contradict each other or the rule; otherwise something is only not there.
 */
type Finding = readonly [negative: boolean, expected: unknown, got: unknown];

/**
 * Judge what no single device can show: that they are different, fresh together, of one mode, and complete.
 *
 * @param all what was verified; CPUs are passed over.
 * @param unchecked `topology` tolerates that devices are missing, or that a board does not say who its neighbours are;
 *   duplicates, other nonces and contradictions refuse all the same.
 */
export function judgeSet(all: readonly (readonly [name: string, verified: Verified])[], unchecked: readonly Unchecked[]): JudgedSet {
  // No other procedure has these kinds.
  const devices = all.filter((entry): entry is NamedGpu => entry[1].kind.startsWith("nvidia"));
  const gpus = devices.filter(([, { kind }]) => kind === "nvidia-gpu");
  const switches = devices.filter((device) => !gpus.includes(device));
  const [checks, failures]: [Check[], AttestError[]] = [[], []];
  const judge = (id: string, code: string, expected: unknown, got: unknown, holds: boolean): void => {
    checks.push(check(id, holds ? "pass" : "fail", String(expected), String(got), CLAUSE));
    if (!holds) failures.push(refusal("binding", code, String(expected), String(got), { check: id, clause: CLAUSE }));
  };
  if (devices.length > 1) {
    const different = distinct(devices, ({ identity }) => identity).length;
    const nonces = distinct(devices, ({ nonce }) => hex(nonce));
    const modes = distinct(gpus, ({ opaque }) => String(opaque.featureFlag)); // a switch states none
    judge("device.unique", "gpu-device-repeated", devices.length, different, different === devices.length);
    judge("device.nonce", "gpu-nonces-differ", "one nonce", nonces, nonces.length < 2);
    judge("device.mode", "gpu-modes-differ", "one mode", modes, modes.length < 2);
  }
  // Such devices come together, so that leaving some out is seen.
  if (switches.length || gpus.some(([, device]) => saysProtected(device))) {
    const whole = `${BOARD_GPUS} GPUs and ${BOARD_SWITCHES} NVSwitches that name exactly each other`;
    const findings = findingsOf(gpus, switches);
    const [negative, expected, got] = findings.find(([contradicts]) => contradicts) ?? findings[0] ?? [false, whole, "they do"];
    const reasons = unchecked.filter((decision) => decision.check === "topology").map(({ reason }) => reason);
    if (reasons.length && findings.length && !negative) checks.push(check("topology", "not evaluated", whole, `unchecked: ${reasons.join("; ")}`, CLAUSE));
    else judge("topology", "gpu-topology-invalid", expected, got, !findings.length);
  }
  return { checks, failures };
}

const distinct = (devices: readonly NamedGpu[], value: (device: VerifiedGpu) => string): string[] => [...new Set(devices.map(([, device]) => value(device)))];

const saysProtected = ({ opaque }: VerifiedGpu): boolean => opaque.featureFlag === PROTECTED_PCIE_MODE || opaque.protectedPcie === PROTECTED_PCIE_ON;

// -- a protected board

function findingsOf(gpus: readonly NamedGpu[], switches: readonly NamedGpu[]): Finding[] {
  const findings: Finding[] = [];
  const require = (holds: boolean, ...finding: Finding): void => {
    if (!holds) findings.push(finding);
  };
  // (1) One that is missing may have been left out; one too many belongs to another board.
  const [some, others] = [gpus.length - BOARD_GPUS, switches.length - BOARD_SWITCHES];
  require(!some && !others, some > 0 || others > 0, `${BOARD_GPUS} GPUs and ${BOARD_SWITCHES} NVSwitches`, [gpus.length, switches.length]);
  // (2) Both fields of a GPU have to say it. One alone is a contradiction; neither is a GPU that is in another mode.
  for (const [name, device] of gpus) {
    const [wanted, stated] = [[PROTECTED_PCIE_MODE, PROTECTED_PCIE_ON], [device.opaque.featureFlag, device.opaque.protectedPcie]];
    require(String(stated) === String(wanted), saysProtected(device), `${name}: mode and protected PCIe ${wanted}`, stated);
  }
  // (3) Each device of one kind names exactly the devices of the other, and all of them name the same.
  findings.push(...naming(gpus, switches, BOARD_SWITCHES, ({ opaque }) => opaque.switchPdis));
  findings.push(...naming(switches, gpus, BOARD_GPUS, ({ opaque }) => opaque.gpuPdis));
  // (4) A switch is who it says, and locked.
  for (const [name, device] of switches) {
    const { ownPdi, lockStatus } = device.opaque;
    require(ownPdi === pdi(device), ownPdi !== undefined, `${name}: ${pdi(device)}`, ownPdi);
    require(lockStatus === LOCKED, lockStatus !== undefined, `${name}: lock status ${LOCKED}`, lockStatus);
  }
  // (5) One driver runs all GPUs.
  const drivers = distinct(gpus, ({ driverVersion }) => String(driverVersion));
  require(drivers.length < 2, true, "one driver version", drivers);
  return findings;
}

function naming(
  naming: readonly NamedGpu[],
  others: readonly NamedGpu[],
  size: number,
  pdisOf: (device: VerifiedGpu) => readonly string[] | undefined,
): Finding[] {
  const present = lit(others.map(([, device]) => pdi(device)));
  const stated = naming.map(([name, device]) => [name, lit(pdisOf(device) ?? []), pdisOf(device)] as const);
  const first = stated.find(([, , isStated]) => isStated)?.[1];
  return stated.flatMap(([name, pdis, isStated]): Finding[] => {
    if (!isStated) return [[false, `${name}: ${size} neighbours`, "none"]];
    // Two halves of two boards make no board. Sets are compared, never numbers of links: those differ.
    const contradicts = String(pdis) !== String(first) || pdis.length !== size || !present.every((one) => pdis.includes(one));
    return contradicts || pdis.length !== present.length ? [[contradicts, `${name}: ${present}`, pdis]] : [];
  });
}

/** Each id once and in order, without the links that are off. */
const lit = (pdis: readonly string[]): readonly string[] => [...new Set(pdis)].filter((one) => /[^0]/.test(one)).sort();

const pdi = ({ identity }: VerifiedGpu): string => identity.slice(2);
