/**
 * Several devices of one machine: different ones, asked the same question, and on a protected board all of them.
 *
 * On a board in protected-PCIe mode the links between GPUs and NVSwitches are not encrypted, so the set of devices must
 * be complete and belong together. Each names its neighbours by their PDI, and the PDI of each is in its certificate.
 *
 * Spec: specs/nvidia-gpu.md, section 14.
 */

import { hex } from "../bytes";
import type { Unchecked } from "../checks";
import { need } from "../errors";
import type { JudgedSet } from "../evidence";
import { Procedure, type Steps, type Told, reasonsOf, same } from "../procedure";
import type { Shown } from "../shown";
import type { DeviceModel } from "./certificates";
import type { AuthenticGpu } from "./facts";
import { isSwitch } from "./presented";
import { type OpaqueData, PROTECTED_PCIE } from "./opaque";

const CLAUSE = "NVIDIA nvtrust, topology of protected PCIe";

/** An HGX board has eight GPUs and four NVSwitches. */
const BOARD_GPUS = 8;
const BOARD_SWITCHES = 4;
const LOCKED = 1;

/** A device with the name of its item, its type byte and PDI, its nonce, and what it says of itself. */
interface Device {
  readonly name: string;
  readonly model: DeviceModel;
  readonly identity: string;
  readonly pdi: string;
  readonly nonce: string;
  readonly opaque: OpaqueData;
}

/** Contradiction in the topology. */
interface Finding {
  /** The devices contradict each other or the rule; otherwise something is only not there. */
  readonly isNegative: boolean;
  readonly expected: Shown;
  readonly got: Shown;
}

/**
 * Judge what no single device can show: that they are different, fresh together, of one mode, and complete.
 *
 * @param all the devices whose signature and chain hold; those of another format are passed over.
 * @param unchecked `topology` tolerates that devices are missing, or that a board does not say who its neighbours are;
 *   duplicates, other nonces and contradictions refuse all the same. With one device alone, whatever it says of its
 *   neighbours is not evaluated.
 */
export async function judgeSet(
  all: readonly (readonly [name: string, member: object])[],
  unchecked: readonly Unchecked[],
): Promise<JudgedSet> {
  const devices = all.flatMap(([name, member]) => (isGpu(member) ? [deviceOf(name, member)] : []));
  const gpus = devices.filter(({ model }) => !isSwitch(model));
  const switches = devices.filter(({ model }) => isSwitch(model));
  const several = {
    unique: ["device.unique", CLAUSE],
    nonce: ["device.nonce", CLAUSE],
    mode: ["device.mode", CLAUSE],
  } as const;
  const board = { topology: ["topology", CLAUSE] } as const;
  // Such devices come together, so that leaving some out is seen.
  const isBoard =
    switches.length > 0 || gpus.some(({ opaque }) => opaque.mode === PROTECTED_PCIE || opaque.contradictsMode);
  const applying: Steps = { ...(devices.length > 1 ? several : {}), ...(isBoard ? board : {}) };
  const procedure = new Procedure(applying, { isIndependent: true });
  if (devices.length > 1) {
    const identities = devices.map(({ identity }) => identity);
    const nonces = devices.map(({ nonce }) => nonce);
    // A switch states no mode.
    const modes = gpus.map(({ opaque }) => opaque.mode ?? "not stated");
    await procedure.attempt("unique", (step) => step.tell(...allDifferent(identities)));
    await procedure.attempt("nonce", (step) => step.tell(...allSame("gpu-nonces-differ", nonces)));
    await procedure.attempt("mode", (step) => step.tell(...allSame("gpu-modes-differ", modes)));
  }
  if (isBoard) await procedure.attempt("topology", (step) => step.tell(...requireBoard(gpus, switches, unchecked)));
  return procedure.outcome();
}

const isGpu = (member: object): member is AuthenticGpu => "facts" in member;

function deviceOf(name: string, { facts }: AuthenticGpu): Device {
  const { identity, evidence, model } = facts;
  const { nonce, opaque } = evidence.report;
  return { name, model, identity, pdi: identity.slice(2), nonce: hex(nonce), opaque };
}

const allDifferent = (identities: readonly string[]): Told =>
  same("gpu-device-repeated", "devices", identities, [...new Set(identities)]);

const allSame = (code: string, values: readonly string[]): Told =>
  same(code, "devices", values.slice(0, 1), [...new Set(values)]);

// -- a protected board

/** Whatever contradicts refuses; what is only not there may be tolerated. */
function requireBoard(gpus: readonly Device[], switches: readonly Device[], unchecked: readonly Unchecked[]): Told {
  const whole = `${BOARD_GPUS} GPUs and ${BOARD_SWITCHES} NVSwitches`;
  const findings = [
    ...countFindings(gpus, switches, whole),
    ...gpus.flatMap(modeFindings),
    ...neighbourFindings(gpus, switches, BOARD_SWITCHES, ({ switchPdis }) => switchPdis),
    ...neighbourFindings(switches, gpus, BOARD_GPUS, ({ gpuPdis }) => gpuPdis),
    ...switches.flatMap(switchFindings),
    ...driverFindings(gpus),
  ];
  const negative = findings.find(({ isNegative }) => isNegative);
  const decisions = unchecked.filter(({ check }) => check === "topology");
  if (decisions.length && findings.length && !negative) return [whole, reasonsOf(decisions), "not evaluated"];
  const worst = negative ?? findings[0];
  need(!worst, "binding", "gpu-topology-invalid", worst?.expected, worst?.got);
  return [whole, "complete"];
}

/** No finding where the rule holds. */
const unless = (holds: boolean, isNegative: boolean, expected: Shown, got: Shown): readonly Finding[] =>
  holds ? [] : [{ isNegative, expected, got }];

/** (1) One that is missing may have been left out; one too many belongs to another board. */
function countFindings(gpus: readonly Device[], switches: readonly Device[], whole: string): readonly Finding[] {
  const isComplete = gpus.length === BOARD_GPUS && switches.length === BOARD_SWITCHES;
  const isTooMany = gpus.length > BOARD_GPUS || switches.length > BOARD_SWITCHES;
  return unless(isComplete, isTooMany, whole, `${gpus.length} and ${switches.length}`);
}

/** (2) Every GPU is in protected PCIe, and its status (type 21) does not contradict its feature flag (type 36). */
function modeFindings({ name, opaque }: Device): readonly Finding[] {
  const { mode, contradictsMode, featureFlag, protectedPcie } = opaque;
  const isProtected = mode === PROTECTED_PCIE && !contradictsMode;
  return unless(isProtected, contradictsMode, `${name}: ${PROTECTED_PCIE}`, [featureFlag, protectedPcie]);
}

/**
 * (3) Each device of one kind names exactly the devices of the other, and all of them name the same: two halves of two
 * boards make no board. Sets are compared, never numbers of links: those differ.
 */
function neighbourFindings(
  naming: readonly Device[],
  named: readonly Device[],
  size: number,
  pdisOf: (opaque: OpaqueData) => readonly string[] | undefined,
): readonly Finding[] {
  const present = lit(named.map(({ pdi }) => pdi));
  const stated = naming.map(({ opaque }) => {
    const pdis = pdisOf(opaque);
    return pdis && lit(pdis);
  });
  const first = stated.find((pdis) => pdis !== undefined);
  const isLone = naming.length + named.length === 1;
  return naming.flatMap(({ name }, i) => {
    const pdis = stated[i];
    const areSame = pdis !== undefined && String(pdis) === String(first);
    const fits = areSame && pdis.length === size && present.every((pdi) => pdis.includes(pdi));
    const isNegative = pdis !== undefined && !fits && !isLone;
    return unless(fits && present.length === size, isNegative, `${name}: ${present.join(", ")}`, pdis);
  });
}

/** (4) A switch is the one that it says, and locked. */
function switchFindings({ name, pdi, opaque }: Device): readonly Finding[] {
  const { ownPdi, lockStatus } = opaque;
  return [
    ...unless(ownPdi === pdi, ownPdi !== undefined, `${name}: ${pdi}`, ownPdi),
    ...unless(lockStatus === LOCKED, lockStatus !== undefined, `${name}: lock status ${LOCKED}`, lockStatus),
  ];
}

/** (5) One driver runs all GPUs. */
function driverFindings(gpus: readonly Device[]): readonly Finding[] {
  const drivers = [...new Set(gpus.map(({ opaque }) => String(opaque.driverVersion)))];
  return unless(drivers.length < 2, true, "one driver version", drivers);
}

/** Each id once and in order, without the links that are off. */
const lit = (pdis: readonly string[]): readonly string[] => [...new Set(pdis)].filter((one) => /[^0]/.test(one)).sort();
