/** What a policy demands of an Azure VM around its CPU's report, of each GPU and NVSwitch, and of all devices together. */

import type { ClaimJson } from "../verifier/api";
import { type Row, asked, bits, hexes, measured, mustBe, onlyOutside, rulesOfSection, stated, texts } from "./cpu";
import { type Decoder, type Demand, type JsonObject, type JsonValue, choice, demand, integer, join, optional, refuse, required, section, tableOf, text } from "./decode";
import type { References } from "./references";
import { type Claims, type Rule, atMost, is, isTable, noneOf, oneOf, ruleOf } from "./rules";

// -- Azure

const PCRS = Array.from({ length: 24 }, (_, index) => `pcr${index}`);
const SWITCHES = ["console_enabled", "secure_boot", "tpm_enabled", "tpm_persisted", "filtered_vpci_devices_allowed"];

/** An identifier that paravisors write in either case. */
const caseless: Decoder<string[]> = (value, path) => texts()(value, path).map((one) => one.toLowerCase());
const oneOfCaseless = (values: readonly string[]) => ({ ...oneOf(values), holds: (value: ClaimJson) => values.includes(`${value}`.toLowerCase()) });

const AZURE: Readonly<Record<string, Row>> = {
  ...Object.fromEntries(PCRS.map((key, index) => [key, measured("azure", key, 32, { claim: `pcrs.${index}` })])),
  vm_configuration: bits("azure", "vm_configuration", SWITCHES, { secure_boot: true, tpm_enabled: true, console_enabled: false }),
  vm_unique_ids: asked("azure", "vm_unique_ids", caseless, oneOfCaseless, { claim: "vm_configuration.vm_unique_id" }),
  root_cert_thumbprints: asked("azure", "root_cert_thumbprints", caseless, oneOfCaseless, { claim: "vm_configuration.root_cert_thumbprint" }),
  user_data: asked("azure", "user_data", hexes(64), oneOf),
  tpm_clock_safe: asked("azure", "tpm_clock_safe", mustBe(true), is, { claim: "tpm.safe" }),
  maximum_restart_count: stated("azure", "maximum_restart_count", integer(0, 2 ** 32 - 1), atMost, { claim: "tpm.restart_count" }),
  event_log: onlyOutside("event_log"),
};

export function azureRules(value: JsonValue, path: string, references: References): Rule[] {
  const rules = rulesOfSection(value, path, references, AZURE);
  if (!PCRS.some((key) => key in (value as JsonObject))) throw refuse(path, "pcr0 to pcr23, one at least", undefined);
  return rules;
}

/** Ask the same of the CPU's report within Azure evidence. */
export function ofCpu(rules: readonly Rule[], prefix: string): Rule[] {
  return rules.map((rule) => ({
    ...rule,
    claim: (claims) => {
      const inner = claims[prefix];
      return isTable(inner) ? rule.claim(inner) : undefined;
    },
  }));
}

// -- versions

interface Range {
  readonly at_least?: string | undefined;
  readonly below?: string | undefined;
  readonly exactly?: string | undefined;
}

/** The numbers of a version, most significant first and without zeros at the end; undefined for text that is none. */
function numbers(version: string, base: 10 | 16): number[] | undefined {
  const grammar = base === 16 ? /^[0-9A-Fa-f]{1,2}(\.[0-9A-Fa-f]{1,2}){0,5}$/ : /^[0-9]{1,9}(\.[0-9]{1,9}){0,5}$/;
  if (!grammar.test(version)) return undefined;
  const found = version.split(".").map((part) => Number.parseInt(part, base));
  while (found.at(-1) === 0) found.pop();
  return found;
}

function compare(a: readonly number[], b: readonly number[]): number {
  for (let i = 0; i < Math.max(a.length, b.length); i++) {
    if (a[i] !== b[i]) return (a[i] ?? -1) - (b[i] ?? -1);
  }
  return 0;
}

const rangesOf =
  (base: 10 | 16): Decoder<Range[]> =>
  (value, path) =>
    Array.isArray(value) && value.length ? value.map((member, i) => rangeOf(member, `${path}[${i}]`, base)) : [rangeOf(value, path, base)];

function rangeOf(value: JsonValue, path: string, base: 10 | 16): Range {
  const members = section(value, path, ["at_least", "below", "exactly"]);
  const version: Decoder<string> = (said, at) => {
    if (typeof said !== "string" || !numbers(said, base)) throw refuse(at, `a version in quotes, such as "${base === 16 ? "96.00.A5.00.01" : "570.86.10"}"`, said);
    return said;
  };
  const [low, below, exactly] = ["at_least", "below", "exactly"].map((name) => optional(members, path, name, version, undefined));
  if ((exactly === undefined) === (low === undefined && below === undefined)) throw refuse(path, "at_least, below or both of them; or exactly alone", value);
  const least = numbers(low ?? "0", base) ?? [];
  if (below !== undefined && compare(numbers(below, base) ?? [], least) <= 0) throw refuse(join(path, "below"), `a version above ${low ?? "0"}`, below);
  return { at_least: low, below, exactly };
}

const inRanges = (base: 10 | 16) => (ranges: readonly Range[]) => ({
  expected: ranges.map((range) => Object.entries(range).filter(([, version]) => version).map(([word, version]) => `${word.replace("_", " ")} ${version}`).join(" and ")).join(", or "),
  holds: (value: ClaimJson) => {
    const found = numbers(`${value}`, base);
    const bound = (version: string | undefined, test: (order: number) => boolean): boolean => version === undefined || test(compare(found ?? [], numbers(version, base) ?? []));
    return found !== undefined && ranges.some(({ at_least: low, below, exactly }) => bound(low, (o) => o >= 0) && bound(below, (o) => o < 0) && bound(exactly, (o) => o === 0));
  },
});

// -- GPUs and NVSwitches

const NVDEC_WAIVER = "waived by NVIDIA's rule: NVDEC0 is disabled";
const RIMS = { gpu: ["driver_rim", "vbios_rim"], nvswitch: ["vbios_rim"] } as const;
const MEASUREMENTS = { gpu: 64, nvswitch: 31 } as const;
type Kind = keyof typeof RIMS;

/** What verification has to be told to tolerate, with the author's reasons; one and the same in every branch. */
export interface Tolerated {
  readonly waivedMeasurements: Readonly<Record<string, string>>;
  readonly heldRimSigners?: string;
}

const waivers = (kind: Kind): Decoder<[string, string][]> => tableOf(text, Array.from({ length: MEASUREMENTS[kind] }, (_, index) => `${index}`));
const held: Decoder<Demand<boolean>> = demand(mustBe(false));

export function toleratedBy(value: JsonValue, path: string, kind: Kind): Tolerated {
  const members = section(value, path, Object.keys(kind === "gpu" ? GPU : NVSWITCH));
  const signers = optional(members, path, "held_rim_signers", held, undefined);
  const waivedMeasurements = Object.fromEntries(optional(members, path, "waived_measurements", waivers(kind), []));
  return signers && "unchecked" in signers ? { waivedMeasurements, heldRimSigners: signers.unchecked } : { waivedMeasurements };
}

const version = (claims: Claims, rim: string, member: string): ClaimJson | undefined => {
  const found = claims[rim];
  return isTable(found) ? found[member] : undefined;
};

/** Something was compared, with every RIM, and nothing differs but what is tolerated here. */
function comparison(kind: Kind, waived: readonly number[], tolerateHeld: boolean) {
  const answers = (claims: Claims): ClaimJson[] => RIMS[kind].map((rim) => version(claims, rim, "revocation") ?? "good");
  return {
    claim: (claims: Claims): ClaimJson | undefined => {
      const found = claims["measurements"];
      if (!isTable(found)) return undefined;
      const ours = ((found["waived"] ?? []) as Claims[]).filter(({ reason }) => reason !== NVDEC_WAIVER).map(({ index }) => index ?? -1);
      return {
        matched: found["matched"] ?? 0,
        mismatches: ((found["mismatches"] ?? []) as ClaimJson[]).length,
        waived: ours,
        missing: RIMS[kind].filter((rim) => version(claims, rim, "version") === undefined),
        held: answers(claims).filter((answer) => answer !== "good"),
      };
    },
    holds: (value: ClaimJson): boolean => {
      const { matched, mismatches, waived: others, missing, held: on } = value as Record<string, ClaimJson[]>;
      const whole = Number(matched) !== 0 && !missing?.length && !Number(mismatches);
      return whole && (others ?? []).every((index) => waived.includes(index as number)) && (tolerateHeld || !on?.length);
    },
  };
}

/** The rows about measurements and identity that GPUs and switches share; `rim` is what that key says when it is left out. */
function shared(kind: Kind): Record<string, Row> {
  return {
    vbios_versions: asked(kind, "vbios_versions", rangesOf(16), inRanges(16), { claim: "vbios_version", strict: "required" }),
    rim: (members, path, references) => {
      const { waivedMeasurements, heldRimSigners } = toleratedBy(members, path, kind);
      const summary = comparison(kind, Object.keys(waivedMeasurements).map(Number), heldRimSigners !== undefined);
      const reason = rimReasons.get(references);
      const strict: Demand<boolean> = reason === undefined ? { value: true } : { unchecked: reason };
      const wanted = optional(members, path, "rim", demand(mustBe(true)), strict);
      const expected = "every measurement equal to a reference value that NVIDIA signed";
      return [
        ...ruleOf(`${kind}.rim`, wanted, summary.claim, () => ({ holds: summary.holds, expected })),
        ...Object.entries(waivedMeasurements).flatMap(([index, why]) => ruleOf(`${kind}.waived_measurements.${index}`, { unchecked: why }, "measurements.compared", is)),
        ...(heldRimSigners === undefined ? [] : ruleOf(`${kind}.held_rim_signers`, { unchecked: heldRimSigners }, "vbios_rim.revocation", is)),
      ];
    },
    waived_measurements: () => [],
    held_rim_signers: () => [],
    fwids: asked(kind, "fwids", hexes(48), oneOf, { claim: "fwid" }),
    device_identities: asked(kind, "device_identities", hexes(9), oneOf, { claim: "device_identity" }),
    denied_device_identities: stated(kind, "denied_device_identities", hexes(9), noneOf, { claim: "device_identity" }),
  };
}

/** Why `rim` is unchecked for a whole policy; the references of a policy are its own. */
const rimReasons = new WeakMap<References, string>();

export function leaveRimsUnchecked(references: References, reason: string): void {
  rimReasons.set(references, reason);
}

const GPU: Readonly<Record<string, Row>> = {
  architectures: asked("gpu", "architectures", texts(["hopper", "blackwell"]), oneOf, { claim: "architecture", strict: "required" }),
  driver_versions: asked("gpu", "driver_versions", rangesOf(10), inRanges(10), { claim: "driver_version", strict: "required" }),
  ...shared("gpu"),
  fwid_required: asked("gpu", "fwid_required", mustBe(true), is, { claim: "fwid_matched", strict: true }),
  environment: asked("gpu", "environment", choice(["production"]), (name) => ({ ...oneOf([name]), expected: name }), { claim: "nvml.environment", strict: "production" }),
  cc_mode: asked("gpu", "cc_mode", mustBe(true), is, { claim: "nvml.cc_mode", strict: true }),
  dev_tools_mode: asked("gpu", "dev_tools_mode", mustBe(false), is, { claim: "nvml.dev_tools_mode", strict: false }),
  modes: asked("gpu", "modes", texts(["spt", "mpt", "protected-pcie"]), oneOf, { claim: "mode" }),
  projects: asked("gpu", "projects", texts(), oneOf, { claim: "project" }),
  project_skus: asked("gpu", "project_skus", texts(), oneOf, { claim: "project_sku" }),
  chip_skus: asked("gpu", "chip_skus", texts(), oneOf, { claim: "chip_sku" }),
};

const NVSWITCH: Readonly<Record<string, Row>> = {
  ...shared("nvswitch"),
  locked: asked("nvswitch", "locked", mustBe(true), is, { strict: true }),
};

export function gpuRules(value: JsonValue, path: string, references: References): Rule[] {
  return rulesOfSection(value, path, references, GPU);
}

export function switchRules(value: JsonValue, path: string, references: References): Rule[] {
  return rulesOfSection(value, path, references, NVSWITCH);
}

// -- all devices together

interface Count {
  readonly low: number;
  readonly high: number;
}

const MAX_DEVICES = 64;

const countOf: Decoder<Count> = (value, path) => {
  const number = integer(0, MAX_DEVICES);
  if (typeof value === "number") return { low: number(value, path), high: value };
  const members = section(value, path, ["at_least", "at_most"]);
  const low = required(members, path, "at_least", number);
  const high = optional(members, path, "at_most", number, Number.POSITIVE_INFINITY);
  if (high < low) throw refuse(join(path, "at_most"), `at least ${low}`, high);
  return { low, high };
};

const within = ({ low, high }: Count) => ({
  holds: (value: ClaimJson) => (value as number) >= low && (value as number) <= high,
  expected: low === high ? `exactly ${low}` : `at least ${low}${high === Number.POSITIVE_INFINITY ? "" : ` and at most ${high}`}`,
});

/** Nothing may differ. Of no GPU nothing does: how many there must be is another demand. */
const allOne = () => ({ holds: (value: ClaimJson) => (value as ClaimJson[]).length <= 1, expected: "one for all GPUs" });

export const cpuRule = (kinds: readonly string[]): Rule[] => ruleOf("devices.cpu", { value: kinds }, "cpu_kind", oneOf);

/** Return the rules over all devices, which a body that speaks of GPUs or switches has even where it does not say them. */
export function deviceRules(value: JsonValue | undefined, path: string, spoken: { readonly gpus: boolean; readonly switches: boolean }, cpuKinds: readonly string[]): Rule[] {
  if (!spoken.gpus && !spoken.switches) throw refuse(path, "gpu or nvswitch beside it", "neither");
  const members = section(value ?? {}, path, ["gpus", "switches", "same_architecture", "same_driver_version", "bound"]);
  const counted = (key: "gpus" | "switches"): Rule[] => {
    if (!spoken[key] && key in members) throw refuse(join(path, key), "the key of such devices beside it, without which such a device is refused", members[key]);
    const strict = spoken[key] ? { value: { low: 1, high: Number.POSITIVE_INFINITY } } : undefined;
    return ruleOf(`devices.${key}`, optional(members, path, key, demand(countOf), strict), key, within);
  };
  const strictly = (key: string, claim: string, make: (value: boolean) => ReturnType<typeof allOne>): Rule[] =>
    ruleOf(`devices.${key}`, optional(members, path, key, demand(mustBe(true)), { value: true }), claim, make);
  return [
    ...(cpuKinds.length ? cpuRule(cpuKinds) : []),
    ...counted("gpus"),
    ...counted("switches"),
    ...strictly("bound", "bound", is),
    ...[...strictly("same_architecture", "architectures", allOne), ...strictly("same_driver_version", "driver_versions", allOne)].filter(() => spoken.gpus),
  ];
}
