/** Demands of a policy on each GPU and NVSwitch, and on all of them together. Fetched when a policy speaks of some. */

import { told, type Claims, ordinal } from "./claims";
import { isObject } from "../verifier/json";
import {
  type Json,
  type Reader,
  choice,
  demand,
  hexOf,
  integer,
  join,
  listOf,
  maybe,
  record,
  refuse,
  tableOf,
  text,
} from "./decode";
import {
  type Row,
  type Rule,
  type Test,
  acceptedValues,
  among,
  ask,
  denied,
  flag,
  is,
  mustBe,
  rule,
  section,
  spare,
} from "./rules";
import type { Tell } from "./tolerances";

export { deviceFacts } from "./device_facts";

// -- versions

type Range = Readonly<Record<"at_least" | "below" | "exactly", string | undefined>>;
const HIGHEST = "~";

/** One range of versions or a list of them, of which one has to hold. */
function versions(base: number, claim: string): Row {
  const of = (version: Json): string => ordinal(version, base)!; // one that was read
  const version: Reader<string | undefined> = (value, path) =>
    value === undefined || ordinal(value, base)
      ? (value as string | undefined)
      : refuse(path, "a version in quotes", value);
  const members = record<Range>({ at_least: version, below: version, exactly: version });
  const range: Reader<Range> = (value, path, name) => {
    const found = members(value, path, name);
    const { at_least: low = "0", below, exactly } = found;
    if ((exactly === undefined) === ((found.at_least ?? below) === undefined)) {
      refuse(path, "bounds, or exactly alone", value);
    }
    if (below !== undefined && of(below) <= of(low)) refuse(join(path, "below"), `a version above ${low}`, below);
    return found;
  };
  const within = (found: string, { at_least, below, exactly }: Range): boolean =>
    exactly === undefined
      ? found >= of(at_least ?? "0") && found < (below === undefined ? HIGHEST : of(below))
      : found === of(exactly);
  const test: Test<readonly Range[]> = [
    "",
    (found: string, ranges) => ranges.some((one) => within(ordinal(found, base) ?? HIGHEST, one)),
  ];
  return ask<readonly Range[]>(
    (value, path, name) => (Array.isArray(value) ? listOf(range)(value, path, name) : [range(value, path, name)]),
    test,
    claim,
  );
}

// -- GPUs and NVSwitches

const NVDEC_WAIVER = "waived by NVIDIA's rule: NVDEC0 is disabled";

/** Something was compared, with every RIM, and nothing differs but what is tolerated. */
const compared = (
  rims: number,
  tolerated: () => { readonly waived: Readonly<Record<string, string>>; readonly held: string | undefined },
): Test<boolean> => [
  "NVIDIA's reference values",
  ([matched, mismatches, others, ...answers]: readonly [
    number,
    readonly Claims[],
    readonly Claims[],
    ...(string | null)[],
  ]) => {
    const { waived, held } = tolerated();
    return (
      matched !== 0 &&
      !mismatches.length &&
      others.every(({ index, reason }) => reason === NVDEC_WAIVER || told(index) in waived) &&
      (held !== undefined || answers.slice(rims).every((answer) => answer === null || answer === "good"))
    );
  },
];

/**
 * The keys of a kind of device, and those that GPUs and switches share; `rim` is what that key says when it is left
 * out.
 */
function device(
  rims: readonly string[],
  measurements: number,
  rim: Json,
  tell: Tell,
  rows: Readonly<Record<string, Row>>,
): Row {
  const waivers = tableOf(
    text,
    Array.from({ length: measurements }, (_, index) => `${index}`),
  );
  const of = (member: string): string => rims.map((name) => ` ${name}.${member}`).join("");
  return (value, path, name) => {
    let waived: Readonly<Record<string, string>> = {};
    let opaque: Readonly<Record<string, string>> = {};
    let held: string | undefined;
    const rules = section({
      vbios_versions: versions(16, "vbios_version"),
      ...rows,
      ...spare({
        waived_measurements: (given, at) => {
          waived = waivers(given, at, "");
          return Object.entries(waived).map(([index, unchecked]) =>
            rule(join(at, index), { unchecked }, is, "measurements.compared"),
          );
        },
        accepted_opaque: acceptedValues("(?:11|21|36):(?:[\\da-f]{2}){0,64}", (values) => {
          opaque = values;
        }),
        held_rim_signers: (given, at) => {
          held = demand(mustBe(false))(given, at, "").unchecked;
          return held === undefined ? [] : [rule(at, { unchecked: held }, is, "vbios_rim.revocation")];
        },
        fwids: among(hexOf(48), "fwid"),
        device_identities: among(hexOf(9), "device_identity"),
        denied_device_identities: denied(hexOf(9), "device_identity"),
      }),
      rim: (said = rim, ...at) =>
        ask(
          mustBe(true),
          compared(rims.length, () => ({ waived, held })),
          `measurements.matched measurements.mismatches measurements.waived${of("version")}${of("revocation?")}`,
        )(said, ...at),
    })(value, path, name);
    tell(path, { waivedMeasurements: waived, acceptedOpaque: opaque, heldRimSigners: held });
    return rules;
  };
}

export const gpuRows = (rim: Json, tell: Tell): Row =>
  device(["driver_rim", "vbios_rim"], 64, rim, tell, {
    architectures: among(choice(["hopper", "blackwell"]), "architecture"),
    driver_versions: versions(10, "driver_version"),
    fwid_required: flag(true, "fwid_matched"),
    environment: ask(choice(["production"]), is, "nvml.environment", "production"),
    cc_mode: flag(true, "nvml.cc_mode"),
    dev_tools_mode: flag(false, "nvml.dev_tools_mode"),
    ...spare({
      modes: among(choice(["spt", "mpt", "protected-pcie", "unprotected"]), "mode"),
      projects: among(text, "project"),
      project_skus: among(text, "project_sku"),
      chip_skus: among(text, "chip_sku"),
    }),
  });

export const switchRows = (rim: Json, tell: Tell): Row =>
  device(["vbios_rim"], 31, rim, tell, { locked: flag(true, "locked") });

// -- all devices together

interface Count {
  readonly at_least: number;
  readonly at_most: number | undefined;
}

const number = integer(0, 64);
const range = record<Count>({ at_least: number, at_most: maybe(number) });
const count: Reader<Count> = (value, path, name) => {
  if (!isObject(value)) return { at_least: number(value, path, name), at_most: value as number };
  const found = range(value, path, name);
  if (found.at_most !== undefined && found.at_most < found.at_least) {
    refuse(join(path, "at_most"), `at least ${found.at_least}`, found.at_most);
  }
  return found;
};
const within: Test<Count> = [
  "",
  (found: number, { at_least: low, at_most: high = found }) => low <= found && found <= high,
];
/** Nothing may differ. Of no GPU nothing does: how many there must be is another demand. */
const allOne: Test<boolean> = ["one for all GPUs", (found: readonly string[]) => found.length <= 1];

/** The rules over all devices, which a body that speaks of GPUs or switches has even where it does not say them. */
export function deviceRules(value: Json = {}, path: string, gpus: number, switches: number): Rule[] {
  if (!gpus && !switches) refuse(path, "gpu or nvswitch beside it", value);
  const counted = (claim: string, spoken: number): Row =>
    spoken
      ? ask(count, within, claim, { at_least: 1, at_most: undefined })
      : maybe<Rule[]>((said, at) => refuse(at, "gpu or nvswitch beside it", said), []);
  const found = section({
    gpus: counted("gpus", gpus),
    switches: counted("switches", switches),
    bound: flag(true, "bound"),
    same_architecture: flag(true, "architectures", undefined, allOne),
    same_driver_version: flag(true, "driver_versions", undefined, allOne),
  })(value, path, "");
  return gpus ? found : found.filter(({ id }) => !id.includes("same"));
}
