/** What a policy demands of CPUs: the sections `snp`, `tdx` and `sgx` (docs/policy.md), and the rules that they become. */

import type { ClaimJson } from "../verifier/api";
import {
  type Decoder, type Demand, type JsonObject, type JsonValue, boolean, choice, demand, hexOf, integer, join, listOf, moment, notHere, optional, refuse,
  required, section, tableOf, text,
} from "./decode";
import { type References, matches, nameIn } from "./references";
import { type Claims, type Rule, type Test, atLeast, claimAt, hasBits, is, isTable, noneOf, oneOf, ruleOf } from "./rules";

/** One key of a section: how it is read, and the rules that it becomes. */
export type Row = (members: JsonObject, path: string, references: References) => readonly Rule[];

/** Read a section by its table of keys. */
export function rulesOfSection(value: JsonValue, path: string, references: References, rows: Readonly<Record<string, Row>>): Rule[] {
  const members = section(value, path, Object.keys(rows));
  return Object.values(rows).flatMap((row) => row(members, path, references));
}

interface Shape<T> {
  readonly claim?: string;
  /** The name in the check's id, where it is not the key. */
  readonly as?: string;
  /** What is demanded when the key is left out; `required` refuses then. */
  readonly strict?: T | "required";
  readonly more?: Partial<Rule>;
}

/** A key that takes a demand: a value, or `{unchecked: reason}`. */
export function asked<T>(kind: string, key: string, decoder: Decoder<T>, make: (value: T) => { holds: Test; expected: string }, shape: Shape<T> = {}): Row {
  return (members, path) => {
    const { strict, claim, as } = shape;
    const wanted: Demand<T> | undefined =
      strict === "required" ? required(members, path, key, demand(decoder)) : optional(members, path, key, demand(decoder), strict === undefined ? undefined : { value: strict });
    return ruleOf(`${kind}.${as ?? key}`, wanted, claim ?? as ?? key, make, shape.more);
  };
}

/** A key that takes a value and no reason against it. */
export function stated<T>(kind: string, key: string, decoder: Decoder<T>, make: (value: T) => { holds: Test; expected: string }, shape: Shape<T> = {}): Row {
  return (members, path) => {
    const found = optional(members, path, key, decoder, undefined);
    return found === undefined ? [] : ruleOf(`${kind}.${shape.as ?? key}`, { value: found }, shape.claim ?? shape.as ?? key, make, shape.more);
  };
}

/** A demand that has one strict value; the other would be a relaxation without a reason. */
export const mustBe =
  (strict: boolean): Decoder<boolean> =>
  (value, path) => {
    if (boolean(value, path) !== strict) throw refuse(path, `${strict}, or {unchecked: reason}`, value);
    return strict;
  };

/** Named bits that must be set or clear; the strict ones are demanded even when nobody mentions them. */
export function bits(kind: string, key: string, names: readonly string[], strict: Readonly<Record<string, boolean>>, claims = key): Row {
  return (members, path) => {
    const found = new Map<string, Demand<boolean>>(Object.entries(strict).map(([name, value]) => [name, { value }]));
    for (const [name, wanted] of optional(members, path, key, tableOf(demand(boolean), names), [])) {
      const only = strict[name];
      if (only !== undefined && "value" in wanted && wanted.value !== only) throw refuse(join(join(path, key), name), `${only}, or {unchecked: reason}`, wanted.value);
      found.set(name, wanted);
    }
    return [...found].flatMap(([name, wanted]) => ruleOf(`${kind}.${key}.${name}`, wanted, `${claims}.${name}`, is));
  };
}

/** A measurement that must be among reference values. */
export function measured(kind: string, key: string, size: number, shape: { strict?: "required"; claim?: string } = {}): Row {
  return (members, path, references) =>
    asked(kind, key, listOf(nameIn(references, size)), (names) => matches(names, references), shape)(members, path, references);
}

export const texts = (options?: readonly string[]): Decoder<string[]> => listOf(options ? choice(options) : text);
export const hexes = (size: number): Decoder<string[]> => listOf(hexOf(size));

// -- SEV-SNP

const PRODUCTS = ["Milan", "Genoa", "Turin"];
const LEVELS = ["fmc", "bootloader", "tee", "snp", "microcode"];
type Tcb = Readonly<Record<string, number>>;

const levelsOf = (product: string): string[] => (product === "Turin" ? LEVELS : LEVELS.slice(1));

/** All components of the product line: one that is left out would silently be zero. */
function tcbOf(value: JsonValue, path: string, product: string): Tcb {
  const names = levelsOf(product);
  const members = section(value, path, names);
  return Object.fromEntries(names.map((name) => [name, required(members, path, name, integer(0, 255))]));
}

function byProduct<T>(member: (value: JsonValue, path: string, product: string) => T): Decoder<Map<string, T>> {
  return (value, path) => {
    const lines = tableOf((below, at) => [below, at] as const, PRODUCTS)(value, path);
    return new Map(lines.map(([product, [below, at]]) => [product, member(below, at, product)]));
  };
}

const tcbText = (tcb: Tcb): string => Object.entries(tcb).map(([name, level]) => `${name} ${level}`).join(" ");

/** The levels of a claim as those of its product line: a Turin has one more. */
function levels(value: ClaimJson, product: string): Tcb | undefined {
  const names = levelsOf(product);
  return isTable(value) && names.every((name) => typeof value[name] === "number") ? (value as Tcb) : undefined;
}

const withProduct = (name: string) => (claims: Claims): ClaimJson | undefined => {
  const [tcb, product] = [claims[name], claims["product"]];
  return tcb === undefined || product === undefined ? undefined : { tcb, product };
};

function tcbTest<T>(lines: Map<string, T>, holds: (levels: Tcb, wanted: T) => boolean): Test {
  return (value) => {
    const { tcb, product } = value as { tcb: ClaimJson; product: string };
    const [wanted, found] = [lines.get(product), levels(tcb, product)];
    return wanted !== undefined && found !== undefined && holds(found, wanted);
  };
}

const covers = (found: Tcb, least: Tcb): boolean => Object.entries(least).every(([name, level]) => (found[name] ?? -1) >= level);

function tcbRows(which: string): Record<string, Row> {
  const [minimum, exact] = [`minimum_${which}`, `exact_${which}`].map((name) => name.replace("_reported", "")) as [string, string];
  const claim = withProduct(which);
  const row = (key: string, decoder: Decoder<Map<string, unknown>>, make: (lines: never) => { holds: Test; expected: string }): Row => (members, path) =>
    ruleOf(`snp.${key}`, optional(members, path, key, demand(decoder), undefined), claim, make as never);
  return {
    [minimum]: row(minimum, byProduct(tcbOf), (lines: Map<string, Tcb>) => ({
      holds: tcbTest(lines, covers),
      expected: [...lines].map(([product, tcb]) => `at least ${tcbText(tcb)} on ${product}`).join("; "),
    })),
    [exact]: row(exact, byProduct(exactTcbs), (lines: Map<string, Tcb[]>) => ({
      holds: tcbTest(lines, (found, listed) => listed.some((tcb) => covers(found, tcb) && covers(tcb, pick(found, tcb)))),
      expected: [...lines].map(([product, tcbs]) => `exactly ${tcbs.map(tcbText).join(" or ")} on ${product}`).join("; "),
    })),
  };
}

const pick = (found: Tcb, like: Tcb): Tcb => Object.fromEntries(Object.keys(like).map((name) => [name, found[name] ?? -1]));

function exactTcbs(value: JsonValue, path: string, product: string): Tcb[] {
  const found = listOf((member, at) => tcbOf(member, at, product))(value, path);
  const again = found.findIndex((tcb, i) => found.slice(0, i).some((other) => tcbText(other) === tcbText(tcb)));
  if (again >= 0) throw refuse(`${path}[${again}]`, "a TCB that does not stand there already", tcbText(found[again] ?? {}));
  return found;
}

const abi: Decoder<readonly [number, number]> = (value, path) => {
  const members = section(value, path, ["major", "minor"]);
  return [required(members, path, "major", integer(0, 255)), required(members, path, "minor", integer(0, 255))];
};

const EXACT = Number.MAX_SAFE_INTEGER;
const GUEST_POLICY = ["smt", "migrate_ma", "debug", "single_socket", "cxl_allow", "mem_aes_256_xts", "rapl_dis", "ciphertext_hiding_dram", "page_swap_disable"];
const PLATFORM_INFO = ["smt_en", "tsme_en", "ecc_en", "rapl_dis", "ciphertext_hiding_dram_en", "alias_check_complete", "tio_en"];

const SNP: Readonly<Record<string, Row>> = {
  products: asked("snp", "products", texts(PRODUCTS), oneOf, { claim: "product", strict: "required" }),
  measurement: measured("snp", "measurement", 48, { strict: "required" }),
  host_data: asked("snp", "host_data", hexes(32), oneOf),
  id_key_digests: asked("snp", "id_key_digests", hexes(48), oneOf, { as: "id_key_digest" }),
  author_key_digests: asked("snp", "author_key_digests", hexes(48), oneOf, { as: "author_key_digest" }),
  family_ids: asked("snp", "family_ids", hexes(16), oneOf, { as: "family_id" }),
  image_ids: asked("snp", "image_ids", hexes(16), oneOf, { as: "image_id" }),
  chip_ids: asked("snp", "chip_ids", hexes(64), oneOf, { as: "chip_id" }),
  csp_ids: asked("snp", "csp_ids", texts(), oneOf, { as: "csp_id" }),
  denied_chip_ids: stated("snp", "denied_chip_ids", hexes(64), noneOf, { claim: "chip_id" }),
  vmpl: asked("snp", "vmpl", listOf(integer(0, 3)), oneOf, { strict: [0] }),
  guest_policy: bits("snp", "guest_policy", GUEST_POLICY, { debug: false, migrate_ma: false }, "policy"),
  minimum_abi: (members, path) =>
    ruleOf(
      "snp.minimum_abi",
      optional(members, path, "minimum_abi", demand(abi), undefined),
      ({ policy }) => (isTable(policy) ? [policy["abi_major"] ?? -1, policy["abi_minor"] ?? -1] : undefined),
      ([major, minor]) => ({
        holds: (value) => ((value as number[])[0] ?? -1) * 256 + ((value as number[])[1] ?? -1) >= major * 256 + minor,
        expected: `at least ${major}.${minor}`,
      }),
    ),
  minimum_guest_svn: stated("snp", "minimum_guest_svn", integer(0, 2 ** 32 - 1), atLeast, { as: "guest_svn" }),
  ...tcbRows("reported_tcb"),
  ...tcbRows("committed_tcb"),
  ...tcbRows("launch_tcb"),
  provisional_firmware: asked("snp", "provisional_firmware", mustBe(false), is, { strict: false }),
  rollback_protection: asked("snp", "rollback_protection", mustBe(true), is, { as: "firmware_rollback_protected", strict: true }),
  masked_chip_id: (members, path) =>
    ruleOf(
      "snp.masked_chip_id",
      optional(members, path, "masked_chip_id", demand(mustBe(false)), { value: false }),
      // Under a VLEK a zero CHIP_ID is normal; under a VCEK it keeps the certificate from being compared with the chip.
      ({ signing_key: key, chip_id: id }) => (key === undefined || id === undefined ? undefined : key === "vcek" && !/[^0]/.test(`${id}`)),
      is,
    ),
  signing_key: asked("snp", "signing_key", texts(["vcek", "vlek"]), oneOf, { strict: ["vcek", "vlek"] }),
  platform_info: bits("snp", "platform_info", PLATFORM_INFO, { alias_check_complete: true }),
  mitigations_at_launch: stated("snp", "mitigations_at_launch", integer(1, EXACT), hasBits, { as: "launch_mit_vector" }),
  mitigations_now: stated("snp", "mitigations_now", integer(1, EXACT), hasBits, { as: "current_mit_vector" }),
};

/** VCEK seeds of Milan can be extracted by software: any report of any TCB can be forged. */
const KNOWN_BROKEN: Rule = {
  id: "policy.snp.product_known_broken",
  claim: claimAt("product"),
  expected: "a product line whose report keys are not publicly extracted",
  holds: (value) => value !== "Milan",
  otherwise: "warning",
};

export function snpRules(value: JsonValue, path: string, references: References): Rule[] {
  const rules = rulesOfSection(value, path, references, SNP);
  const said = Object.keys(value as JsonObject);
  if (!said.includes("minimum_tcb") && !said.includes("exact_tcb")) throw refuse(join(path, "minimum_tcb"), "a value, or one of exact_tcb", undefined);
  return [...rules, KNOWN_BROKEN];
}

// -- TDX and SGX

const STATUSES = ["UpToDate", "SWHardeningNeeded", "ConfigurationNeeded", "ConfigurationAndSWHardeningNeeded", "OutOfDate", "OutOfDateConfigurationNeeded",
  "TDRelaunchAdvised", "TDRelaunchAdvisedConfigurationNeeded"];
const TCB = { toleratedBy: "tcb" };

interface Advisory {
  readonly reason: string;
  readonly expires: number;
}

const advisories: Decoder<Map<string, Advisory>> = (value, path) => {
  const found = tableOf((member, at): Advisory => {
    const members = section(member, at, ["reason", "expires"]);
    return { reason: required(members, at, "reason", text), expires: required(members, at, "expires", moment) };
  })(value, path);
  const odd = found.find(([name]) => !/^INTEL-SA-[0-9]{5}$/.test(name));
  if (odd) throw refuse(join(path, odd[0]), "an advisory such as INTEL-SA-00837", odd[0]);
  return new Map(found);
};

function tcbJudgement(kind: string): Record<string, Row> {
  const number = stated(kind, "minimum_tcb_evaluation_data_number", integer(1, 2 ** 31), atLeast, { claim: "tcb_evaluation_data_number", more: TCB });
  const identity = stated(kind, "minimum_tcb_evaluation_data_number", integer(1, 2 ** 31), atLeast, {
    as: "minimum_qe_identity_evaluation_data_number",
    claim: "qe_identity_evaluation_data_number",
    more: TCB,
  });
  return {
    tcb_status: asked(kind, "tcb_status", texts(STATUSES), oneOf, { strict: ["UpToDate"], more: TCB }),
    accepted_advisories: asked<Map<string, Advisory>>(
      kind,
      "accepted_advisories",
      advisories,
      (accepted) => ({
        holds: (value, at) => (value as string[]).every((name) => at <= (accepted.get(name)?.expires ?? Number.NEGATIVE_INFINITY)),
        expected: accepted.size ? `no advisory but ${[...accepted.keys()].join(", ")}` : "no advisory",
      }),
      { claim: "advisory_ids", strict: new Map(), more: TCB },
    ),
    minimum_tcb_date: asked(
      kind,
      "minimum_tcb_date",
      moment,
      (first) => ({ holds: (value) => Date.parse(value as string) >= first, expected: `${new Date(first).toJSON()} or later` }),
      { claim: "tcb_date", more: TCB },
    ),
    minimum_tcb_evaluation_data_number: (...given) => [...number(...given), ...identity(...given)],
    fmspcs: asked(kind, "fmspcs", hexes(6), oneOf, { as: "fmspc" }),
    ppids: asked(kind, "ppids", hexes(16), oneOf, { as: "ppid" }),
    denied_ppids: stated(kind, "denied_ppids", hexes(16), noneOf, { claim: "ppid" }),
    platform: bits(kind, "platform", ["dynamic_platform", "cached_keys", "smt_enabled"], {}),
  };
}

const VERSIONS = Array.from({ length: 256 }, (_, version) => `${version}`);
const TD_ATTRIBUTES = ["debug", "sept_ve_disable", "migratable", "pks", "kl", "perfmon"];

const TDX: Readonly<Record<string, Row>> = {
  mr_td: measured("tdx", "mr_td", 48, { strict: "required" }),
  ...Object.fromEntries(["rtmr0", "rtmr1", "rtmr2", "rtmr3"].map((key) => [key, measured("tdx", key, 48)])),
  ...Object.fromEntries(["mr_service_td", "mr_seam", "mr_config_id", "mr_owner", "mr_owner_config"].map((key) => [key, asked("tdx", key, hexes(48), oneOf)])),
  td_attributes: bits("tdx", "td_attributes", TD_ATTRIBUTES, { debug: false, sept_ve_disable: true, migratable: false }),
  unnamed_attributes: asked("tdx", "unnamed_attributes", mustBe(false), () => ({ ...oneOf([0]), expected: "no bit that has no name here" }), {
    claim: "td_attributes.unnamed",
    strict: false,
  }),
  unknown_xfam: asked("tdx", "unknown_xfam", mustBe(false), () => ({ ...is(true), expected: "bits that a TD of today may set" }), { claim: "xfam_known", strict: false }),
  service_td: (members, path) => {
    // Left out, it is demanded that none is bound, unless the policy says which ones may be.
    const said = optional(members, path, "mr_service_td", demand(hexes(48)), undefined);
    const strict = said && "value" in said ? undefined : { value: false };
    return ruleOf("tdx.service_td", optional(members, path, "service_td", demand(mustBe(false)), strict), "service_td_bound", is);
  },
  minimum_tdx_module_svn: asked(
    "tdx",
    "minimum_tdx_module_svn",
    tableOf(integer(0, 255), VERSIONS),
    (minimums) => ({
      holds: (value) => {
        const module = value as Readonly<Record<string, number>>;
        const least = new Map(minimums).get(`${module["major_version"]}`);
        return least !== undefined && (module["svn"] ?? -1) >= least;
      },
      expected: minimums.map(([version, svn]) => `version ${version} with SVN at least ${svn}`).join("; "),
    }),
    { claim: "tdx_module" },
  ),
  ...tcbJudgement("tdx"),
  event_log: onlyOutside("event_log"),
};

/** A key that is judged by the command line and the service alone. */
export function onlyOutside(key: string): Row {
  return (members, path) => {
    if (key in members) throw notHere(join(path, key));
    return [];
  };
}

export function tdxRules(value: JsonValue, path: string, references: References): Rule[] {
  const rules = rulesOfSection(value, path, references, TDX);
  // What is demanded of a TD's own debug bit is demanded of all that make its memory readable.
  const debug = rules.find(({ id }) => id === "policy.tdx.td_attributes.debug");
  return debug ? [...rules, { ...debug, id: "policy.tdx.under_debug", claim: claimAt("td_attributes.under_debug") }] : rules;
}

const SGX: Readonly<Record<string, Row>> = {
  mr_enclave: measured("sgx", "mr_enclave", 32, { strict: "required" }),
  mr_signer: asked("sgx", "mr_signer", hexes(32), oneOf),
  isv_prod_id: asked("sgx", "isv_prod_id", listOf(integer(0, 0xffff)), oneOf),
  config_id: asked("sgx", "config_id", hexes(64), oneOf),
  minimum_isv_svn: stated("sgx", "minimum_isv_svn", integer(0, 0xffff), atLeast, { claim: "isv_svn" }),
  attributes: bits("sgx", "attributes", ["init", "debug", "mode64bit", "provision_key", "einittoken_key", "cet", "kss", "aex_notify"], { debug: false }),
  ...tcbJudgement("sgx"),
};

export function sgxRules(value: JsonValue, path: string, references: References): Rule[] {
  return rulesOfSection(value, path, references, SGX);
}
