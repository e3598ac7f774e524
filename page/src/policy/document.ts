/** The policy document of the Python engine (docs/policy.md), read for a page: closed, strict, and never partly. */

import { hex, utf8 } from "../verifier/bytes";
import { UNCHECKED_NAMES } from "../verifier/checks";
import { sha256 } from "../verifier/crypto";
import { type JsonObject } from "../verifier/json";
import { type Judge, all, choiceOf, leaf } from "./appraise";
import { sgxRows, snpRows, tdxRows } from "./cpu";
import {
  type Json,
  type Reader,
  anything,
  boolean,
  canonical,
  choice,
  demand,
  integer,
  join,
  like,
  listOf,
  maybe,
  once,
  parsed,
  record,
  refuse,
  tableOf,
  text,
} from "./decode";
import {
  NOTHING_TOLERATED,
  type Tell,
  type Tolerated,
  azureRows,
  cpuRule,
  deviceRules,
  gpuRows,
  switchRows,
} from "./devices";
import { partsOf } from "./kept";
import { type References, acceptedDocuments, merged, ownValues } from "./references";
import { type Claims, type Row, type Rule, optional } from "./rules";

export interface Policy {
  readonly name: string;
  readonly version: number;
  /** SHA-256 of its canonical JSON, as hex: the same that Python names it by. */
  readonly digest: string;
  /** Why the simulator's evidence is accepted, where it is. */
  readonly simulated: string | undefined;
  /** What verification is to leave unchecked, and to tolerate. */
  readonly unchecked: readonly { readonly check: string; readonly reason: string }[];
  readonly tolerances: Readonly<Record<"gpus" | "switches", Tolerated>>;
  /** Judges by all of its rules. */
  readonly judge: Judge;
  /** The document itself. */
  readonly document: JsonObject;
  /** What came with it: documents of reference values, their signatures, and keys. */
  readonly files: readonly string[];
}

/** Sections, and the kinds of Attesters that they judge. */
const KINDS: Readonly<Record<string, string>> = {
  snp: "sev-snp",
  tdx: "tdx",
  sgx: "sgx",
  gpu: "nvidia-gpu",
  nvswitch: "nvidia-switch",
};
type Table = Readonly<Record<string, Reader<unknown>>>;
const unread = (keys: readonly string[]): Table => Object.fromEntries(keys.map((key) => [key, anything]));

const NAME = "[a-z\\d][a-z\\d._-]{0,63}";
/** Branches without a name are numbered, so that no name is a number. */
const branchName = like(`(?!\\d+$)${NAME}`);

const stated: Reader<boolean | number | string> = (value, path, name) =>
  (typeof value === "boolean" ? boolean : typeof value === "string" ? text : integer(0, Number.MAX_SAFE_INTEGER))(
    value,
    path,
    name,
  );
/** Verifiers whose tokens are taken: no token comes to a page, and evidence is judged by all the rest. */
const verifiers = listOf(
  record({
    issuer: text,
    maximum_age: maybe(integer(1, 86_400)),
    policy_ids: maybe(demand(listOf(text))),
    statements: maybe(tableOf(listOf(stated))),
  }),
);

const HEAD = {
  schema: choice(["attest.policy/1"]),
  name: like(NAME),
  version: integer(1, 2 ** 31),
  description: maybe(text),
  simulated: maybe(demand(choice(["refuse"]))),
  unchecked: maybe(tableOf(text, UNCHECKED_NAMES), {}),
  verifiers: maybe(verifiers, []),
  references: maybe(acceptedDocuments),
  reference_values: maybe(ownValues, {}),
};
const head = record({
  ...HEAD,
  ...unread([...Object.keys(KINDS), "azure", "devices", "any_of", "all_of", "at_least"]),
}) as Reader<{ [K in keyof typeof HEAD]: ReturnType<(typeof HEAD)[K]> }>;

/** A body that was read; what it leaves out is undefined. */
interface Body {
  readonly devices: Json;
  readonly any_of: Judge[] | undefined;
  readonly all_of: Judge[] | undefined;
  readonly at_least: Judge | undefined;
}

/**
 * Read a policy: `policy-unreadable`, `policy-invalid` with a path, or what is wrong with its documents of reference values.
 *
 * @param kept its text, or what `together` made of it and of those documents, their signatures, and keys
 */
export async function loadPolicy(kept: string): Promise<Policy> {
  const [text = "", ...files] = partsOf(kept);
  const top = await parsed(text);
  const {
    name,
    version,
    simulated,
    unchecked,
    references,
    reference_values: own,
    verifiers: trusted,
  } = head(top, "", "");
  once(
    trusted.map(({ issuer }) => issuer),
    "verifiers",
    ".issuer",
  );
  const { judge, tolerances } = bodies(top, references ? await merged(own, references, files) : own, unchecked.rim);
  return {
    name,
    version,
    digest: hex(await sha256(utf8(canonical(top)))),
    simulated: simulated?.unchecked,
    unchecked: Object.entries(unchecked).map(([check, reason]) => ({ check, reason })),
    tolerances,
    judge,
    document: top as JsonObject,
    files,
  };
}

/** Evidence is verified once for all branches: what one of them tolerates, all would. */
function agreed(take: (tolerated: Tolerated) => void): Tell {
  let first: readonly [path: string, tolerated: string] | undefined;
  return (path, tolerated) => {
    const told = canonical(tolerated as unknown as Json);
    first ??= [path, told];
    if (first[1] !== told) refuse(path, `what ${first[0]} tolerates`);
    take(tolerated);
  };
}

/** Ask the same of the CPU's report within Azure evidence. */
const within = (rules: readonly Rule[], prefix: string): Rule[] =>
  rules.map((rule) => ({ ...rule, claim: (claims) => rule.claim((claims[prefix] ?? {}) as Claims) }));

/** The rules for each kind of Attester that a body speaks of. */
const leavesOf = ({ azure, ...sections }: Partial<Record<string, Rule[]>>): [kind: string, rules: Rule[]][] =>
  Object.entries(KINDS).flatMap(([key, kind]): [string, Rule[]][] => {
    const rules = sections[key];
    if (!rules) return [];
    return [azure && /snp|tdx/.test(key) ? [`azure-${key}`, [...azure, ...within(rules, key)]] : [kind, rules]];
  });

/** Read all bodies of a policy. @param rim why that is unchecked for all of it */
function bodies(top: Json, references: References, rim: string | undefined): Pick<Policy, "judge" | "tolerances"> {
  const tolerances = { gpus: NOTHING_TOLERATED, switches: NOTHING_TOLERATED };
  const strict: Json = rim === undefined ? true : { unchecked: rim };
  const rows: Readonly<Record<string, Row>> = {
    azure: azureRows(references),
    snp: snpRows(references),
    tdx: tdxRows(references),
    sgx: sgxRows(references),
    gpu: gpuRows(
      strict,
      agreed((tolerated) => (tolerances.gpus = tolerated)),
    ),
    nvswitch: switchRows(
      strict,
      agreed((tolerated) => (tolerances.switches = tolerated)),
    ),
  };
  let branches = 0;

  /** Read the branches of a combinator in a body so deep. */
  const listed =
    (word: string, path: string, depth: number): Reader<Judge[]> =>
    (list, place, _) => {
      if (depth > 3) refuse(place, "branches at most 4 deep");
      const names: unknown[] = [];
      const found = listOf((member, at) => {
        if (++branches > 64) refuse(at, "at most 64 branches");
        const name = maybe(branchName)((member as JsonObject | null)?.name, join(at, "name"), "");
        names.push(name);
        return body(member, at, `${join(path, word)}[${name ?? names.length - 1}]`, depth + 1, { name: anything });
      })(list, place, _);
      once(names, place, ".name");
      return found;
    };

  const atLeast =
    (path: string, depth: number): Reader<Judge> =>
    (value, place, _) => {
      const { of, count } = record({ of: listed("at_least", path, depth), count: anything })(value, place, _);
      return choiceOf(path, "at_least", integer(1, of.length)(count, join(place, "count"), _), of);
    };

  /** Read one body. `at` is its place in the document, `path` the name that its checks carry, `beside` what else may stand there. */
  function body(value: Json, at: string, path: string, depth: number, beside: Table): Judge {
    const of = (word: string): Reader<Judge[] | undefined> => maybe(listed(word, path, depth));
    const table = {
      ...beside,
      ...optional(rows),
      devices: anything,
      any_of: of("any_of"),
      all_of: of("all_of"),
      at_least: maybe(atLeast(path, depth)),
    };
    const {
      devices,
      any_of: any,
      all_of: every = [],
      at_least: least,
      ...sections
    } = record(table)(value, at, "") as Body & Partial<Record<string, Rule[]>>;
    const leaves = leavesOf(sections);
    const kinds = leaves.map(([kind]) => kind);
    if (sections.azure) {
      if (!kinds.some((kind) => kind.includes("azure"))) refuse(join(at, "azure"), "snp or tdx beside it");
      if (sections.tdx?.some(({ id }) => id.includes("event_log")))
        refuse(join(at, "tdx.event_log"), "azure.event_log");
    }
    const choices = [...(any ? [choiceOf(path, "any_of", 1, any)] : []), ...every, ...(least ? [least] : [])];
    if (!kinds.length && !choices.length) refuse(join(at, "snp"), "a section, or branches");
    const [cpus, gpus, switches] = [/^(?!nvidia)/, /gpu/, /switch/].map((kind) =>
      kinds.filter((one) => kind.test(one)),
    ) as [string[], string[], string[]];
    const spoken = gpus.length + switches.length || devices !== undefined;
    const together = spoken ? deviceRules(devices, join(at, "devices"), gpus.length, switches.length) : [];
    // Without branches, evidence of another kind of CPU is refused as a kind that nobody speaks of.
    if (cpus.length && (spoken || depth || choices.length)) together.push(cpuRule(cpus));
    return all(path, [
      ...[["", together] as const, ...leaves].map(([kind, rules]) => leaf(path, kind, rules)),
      ...choices,
    ]);
  }

  return { judge: body(top, "", "", 0, unread(Object.keys(HEAD))), tolerances };
}
