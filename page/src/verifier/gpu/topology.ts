/**
 * Several devices of one machine: different ones, asked the same question, and on a protected board all of them.
 *
 * On a board in protected-PCIe mode the links between GPUs and NVSwitches are not encrypted, so the set of devices must
 * be complete and belong together. Each names its neighbours by their PDI, and the PDI of each is in its certificate.
 *
 * Spec: specs/nvidia-gpu.md, section 14.
 */

import { hex } from "../bytes";
import { type Check, type Told, type Unchecked, taken } from "../checks";
import { type AttestError, type Shown, need } from "../errors";
import type { Verified } from "../formats";
import { same } from "./attempt";
import type { OpaqueData } from "./opaque";
import type { VerifiedGpu } from "./verify";

/** An HGX board has eight GPUs and four NVSwitches. */
const BOARD_GPUS = 8;
const BOARD_SWITCHES = 4;
const PROTECTED_PCIE_MODE = 2;
const PROTECTED_PCIE_ON = 0xaa;
const LOCKED = 1;

/** A device with the name of its item, its type byte and PDI, its nonce, and what it says of itself. */
interface Device {
  readonly name: string;
  readonly isSwitch: boolean;
  readonly identity: string;
  readonly pdi: string;
  readonly nonce: string;
  readonly opaque: OpaqueData;
}

/** One refusal for each check that failed. */
export interface JudgedSet {
  readonly checks: readonly Check[];
  readonly failures: readonly AttestError[];
}

/**
 * What does not add up. `negative`: the devices contradict each other or the rule; otherwise something is only not there.
 */
type Finding = readonly [negative: boolean, expected: Shown, got: Shown];

/**
 * Judge what no single device can show: that they are different, fresh together, of one mode, and complete.
 *
 * @param all what was verified; CPUs are passed over.
 * @param unchecked `topology` tolerates that devices are missing, or that a board does not say who its neighbours are;
 *   duplicates, other nonces and contradictions refuse all the same.
 */
export async function judgeSet(
  all: readonly (readonly [name: string, verified: Verified])[],
  unchecked: readonly Unchecked[],
): Promise<JudgedSet> {
  const devices = all.flatMap(([name, verified]): Device[] => {
    if (!verified.kind.startsWith("nvidia")) return [];
    const { identity, evidence, model } = (verified as VerifiedGpu).attempt; // no other procedure has these kinds
    const { nonce, opaque } = evidence.report;
    return [
      { name, isSwitch: model.kind === "nvidia-switch", identity, pdi: identity.slice(2), nonce: hex(nonce), opaque },
    ];
  });
  const gpus = devices.filter(({ isSwitch }) => !isSwitch);
  const switches = devices.filter(({ isSwitch }) => isSwitch);
  const [checks, failures]: [Check[], AttestError[]] = [[], []];
  const judge = async (id: string, step: () => Told): Promise<void> => {
    const [made, refused] = await taken(id, "nvidia-gpu.md 14", step);
    checks.push(made);
    if (refused) failures.push(refused);
  };
  const allSame = (id: string, code: string, values: readonly unknown[]): Promise<void> =>
    judge(id, () => same(code, String(values[0] ?? ""), distinct(values)));
  if (devices.length > 1) {
    const identities = devices.map(({ identity }) => identity);
    await judge("device.unique", () => same("gpu-device-repeated", String(identities), distinct(identities)));
    await allSame(
      "device.nonce",
      "gpu-nonces-differ",
      devices.map(({ nonce }) => nonce),
    );
    await allSame(
      "device.mode",
      "gpu-modes-differ",
      gpus.map(({ opaque }) => opaque.featureFlag),
    ); // a switch states none
  }
  // Such devices come together, so that leaving some out is seen.
  if (switches.length || gpus.some(saysProtected)) {
    await judge("topology", () => requireBoard(gpus, switches, unchecked));
  }
  return { checks, failures };
}

const distinct = (values: readonly unknown[]): string => String([...new Set(values)]);

const saysProtected = ({ opaque }: Device): boolean =>
  opaque.featureFlag === PROTECTED_PCIE_MODE || opaque.protectedPcie === PROTECTED_PCIE_ON;

// -- a protected board

/** Whatever contradicts refuses; what is only not there may be tolerated. */
function requireBoard(gpus: readonly Device[], switches: readonly Device[], unchecked: readonly Unchecked[]): Told {
  const whole = `${BOARD_GPUS} GPUs and ${BOARD_SWITCHES} NVSwitches`;
  const findings = findingsOf(gpus, switches, whole);
  const negative = findings.find(([contradicts]) => contradicts);
  const reasons = unchecked.filter(({ check }) => check === "topology").map(({ reason }) => reason);
  if (reasons.length && findings.length && !negative) {
    return [whole, `unchecked: ${reasons.join("; ")}`, "not evaluated"];
  }
  const [, expected, got] = negative ?? findings[0] ?? [];
  need(!findings.length, "binding", "gpu-topology-invalid", expected, got);
  return [whole, "complete"];
}

function findingsOf(gpus: readonly Device[], switches: readonly Device[], whole: string): Finding[] {
  const findings: Finding[] = [];
  const demand = (holds: unknown, ...finding: Finding): void => {
    if (!holds) findings.push(finding);
  };
  // (1) One that is missing may have been left out; one too many belongs to another board.
  const some = gpus.length - BOARD_GPUS;
  const others = switches.length - BOARD_SWITCHES;
  demand(!some && !others, some > 0 || others > 0, whole, [gpus.length, switches.length]);
  // (2) Both fields of a GPU have to say it. One alone is a contradiction; neither is a GPU that is in another mode.
  for (const gpu of gpus) {
    const wanted = [PROTECTED_PCIE_MODE, PROTECTED_PCIE_ON];
    const stated = [gpu.opaque.featureFlag, gpu.opaque.protectedPcie];
    demand(
      String(stated) === String(wanted),
      saysProtected(gpu),
      `${gpu.name}: mode and protected PCIe ${wanted}`,
      String(stated),
    );
  }
  // (3) Each device of one kind names exactly the devices of the other, and all of them name the same: two halves of two
  // boards make no board. Sets are compared, never numbers of links: those differ.
  const sides = [
    [gpus, switches, BOARD_SWITCHES, "switchPdis"],
    [switches, gpus, BOARD_GPUS, "gpuPdis"],
  ] as const;
  for (const [naming, others, size, field] of sides) {
    const present = lit(others.map(({ pdi }) => pdi));
    const stated = naming.map(({ opaque }) => opaque[field] && lit(opaque[field]));
    naming.forEach(({ name }, i) => {
      const pdis = stated[i];
      const fits =
        pdis &&
        String(pdis) === String(stated.find(Boolean)) &&
        pdis.length === size &&
        present.every((pdi) => pdis.includes(pdi));
      demand(fits && present.length === size, Boolean(pdis) && !fits, `${name}: ${present}`, pdis);
    });
  }
  // (4) A switch is who it says, and locked.
  for (const { name, pdi, opaque } of switches) {
    const { ownPdi, lockStatus } = opaque;
    demand(ownPdi === pdi, ownPdi !== undefined, `${name}: ${pdi}`, ownPdi);
    demand(lockStatus === LOCKED, lockStatus !== undefined, `${name}: lock status ${LOCKED}`, lockStatus);
  }
  // (5) One driver runs all GPUs.
  const drivers = gpus.map(({ opaque }) => String(opaque.driverVersion));
  demand(new Set(drivers).size < 2, true, "one driver version", drivers);
  return findings;
}

/** Each id once and in order, without the links that are off. */
const lit = (pdis: readonly string[]): readonly string[] => [...new Set(pdis)].filter((one) => /[^0]/.test(one)).sort();
