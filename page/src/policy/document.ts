/** The policy document of the Python engine (docs/policy.md), read for a page: closed, strict, and never partly. */

import { hex, utf8 } from "../verifier/bytes";
import { UNCHECKED_NAMES } from "../verifier/checks";
import { sha256 } from "../verifier/crypto";
import { type JsonObject } from "../verifier/json";
import { type Judge, all, choiceOf, leaf } from "./appraise";
import { sgxRows, snpRows, tdxRows } from "./cpu";
import {
  type Json, type Reader, anything, boolean, canonical, choice, demand, integer, join, like, listOf, maybe, once, parsed, record, refuse, tableOf, text,
} from "./decode";
import { type Tolerated, azureRows, cpuRule, deviceRules, gpuRows, switchRows } from "./devices";
import { type References, acceptedDocuments, merged, ownValues } from "./references";
import type { Claims, Row, Rule } from "./rules";

export interface Policy {
  readonly name: string;
  readonly version: number;
  /** SHA-256 of its canonical JSON, as hex: the same that Python names it by. */
  readonly digest: string;
  /** Why the simulator's evidence is accepted, where it is. */
  readonly simulated: string | undefined;
  /** What verification is to leave unchecked, and to tolerate. */
  readonly unchecked: readonly { readonly check: string; readonly reason: string }[];
  readonly tolerances: { readonly gpus: Tolerated; readonly switches: Tolerated };
  /** Judges by all of its rules. */
  readonly judge: Judge;
  /** The document itself. */
  readonly document: JsonObject;
  /** What came with it: documents of reference values, their signatures, and keys. */
  readonly files: readonly string[];
}

const [MAX_NESTING, MAX_BRANCHES] = [4, 64];
/** Sections, and the kinds of Attesters that they judge. */
const KINDS = { snp: "sev-snp", tdx: "tdx", sgx: "sgx", gpu: "nvidia-gpu", nvswitch: "nvidia-switch" } as const;
const BODY = Object.fromEntries([...Object.keys(KINDS), "azure", "devices", "any_of", "all_of", "at_least"].map((key) => [key, anything]));

const nameOf = like("[a-z\\d][a-z\\d._-]{0,63}", "lower-case letters, digits, '.', '_' and '-', at most 64");
/** Branches without a name are numbered. */
const branchName = like("(?!\\d+$)[a-z\\d][a-z\\d._-]{0,63}", "a name that is no number");

const stated: Reader<boolean | number | string> = (value, path, name) => (typeof value === "boolean" ? boolean : typeof value === "string" ? text : integer(0, Number.MAX_SAFE_INTEGER))(value, path, name);
/** Verifiers whose tokens are taken: no token comes to a page, and evidence is judged by all the rest. */
const verifiers = listOf(record({ issuer: text, maximum_age: maybe(integer(1, 86_400)), policy_ids: maybe(demand(listOf(text))), statements: maybe(tableOf(listOf(stated))) }));

const head = record({
  schema: choice(["attest.policy/1"]),
  name: nameOf,
  version: integer(1, 2 ** 31),
  description: maybe(text),
  simulated: maybe(demand(choice(["refuse"]))),
  unchecked: maybe(tableOf(text, UNCHECKED_NAMES), {}),
  verifiers: maybe(verifiers, []),
  references: maybe(acceptedDocuments),
  reference_values: maybe(ownValues, {}),
  ...BODY,
});
const choiceRecord = record({ count: anything, of: anything });

/**
 * Read a policy: `policy-unreadable`, `policy-invalid` with a path, or what is wrong with its documents of reference values.
 *
 * @param files those documents, their signatures, and keys
 */
export async function loadPolicy(document: string, files: readonly string[] = []): Promise<Policy> {
  const top = await parsed(document);
  const { name, version, simulated, unchecked, references, reference_values: own, verifiers: trusted } = head(top, "", "");
  once(trusted.map(({ issuer }) => issuer), "verifiers", ".issuer");
  const { judge, tolerances } = bodies(top as JsonObject, references ? await merged(own, references, files) : own, unchecked["rim"]);
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

/** Read all bodies of a policy. @param rim why that is unchecked for all of it */
function bodies(top: JsonObject, references: References, rim: string | undefined): Pick<Policy, "judge" | "tolerances"> {
  const tolerated: Record<"gpu" | "nvswitch", [string, Tolerated][]> = { gpu: [], nvswitch: [] };
  const strict: Json = rim === undefined ? true : { unchecked: rim };
  const rows: Readonly<Record<string, Row>> = {
    azure: azureRows(references),
    snp: snpRows(references),
    tdx: tdxRows(references),
    sgx: sgxRows(references),
    gpu: gpuRows(strict, (...one) => tolerated.gpu.push(one)),
    nvswitch: switchRows(strict, (...one) => tolerated.nvswitch.push(one)),
  };
  let branches = 0;

  /** Read one body. `at` is its place in the document, `path` the name that its checks carry. */
  function body(members: JsonObject, at: string, path: string, depth: number): Judge {
    const read = <T>(key: string, reader: Reader<T>): T | undefined => maybe(reader)(members[key], join(at, key), key);
    const sections = new Map<string, Rule[]>();
    const azure = read("azure", rows["azure"] as Row);
    for (const [key, kind] of Object.entries(KINDS)) {
      const rules = read(key, rows[key] as Row);
      if (!rules) continue;
      if (azure && /snp|tdx/.test(key)) sections.set(`azure-${key}`, [...azure, ...within(rules, key)]);
      else sections.set(kind, rules);
    }
    if (azure && ![...sections.keys()].some((kind) => kind.startsWith("azure"))) refuse(join(at, "azure"), "the key snp or tdx beside it", "neither");
    if (azure && (members["tdx"] as JsonObject | undefined)?.["event_log"] !== undefined) refuse(join(at, "tdx.event_log"), "azure.event_log in its place", "a section");
    const choices = choicesOf(read, path, depth);
    if (!sections.size && !choices.length) refuse(join(at, "snp"), "demands on at least one kind of Attester, or branches", undefined);
    const cpus = [...sections.keys()].filter((kind) => !kind.startsWith("nvidia"));
    const [gpus, switches] = [sections.has(KINDS.gpu), sections.has(KINDS.nvswitch)];
    const spoken = gpus || switches || members["devices"] !== undefined;
    const together = spoken ? deviceRules(members["devices"], join(at, "devices"), gpus, switches) : [];
    // Without branches, evidence of another kind of CPU is refused as a kind that nobody speaks of.
    if (cpus.length && (spoken || depth || choices.length)) together.push(cpuRule(cpus));
    return all(path, [...(together.length ? [leaf(path, "", together)] : []), ...[...sections].map(([kind, rules]) => leaf(path, kind, rules)), ...choices]);
  }

  function choicesOf(read: <T>(key: string, reader: Reader<T>) => T | undefined, path: string, depth: number): Judge[] {
    const listed = (word: string): Reader<Judge[]> => (value, at) => {
      if (depth === MAX_NESTING) refuse(at, `branches at most ${MAX_NESTING} deep`, value);
      const names: (string | undefined)[] = [];
      const found = listOf((member, place) => {
        if (++branches > MAX_BRANCHES) refuse(place, `at most ${MAX_BRANCHES} branches in a policy`, value);
        const { name } = record({ name: maybe(branchName), ...BODY })(member, place, "");
        names.push(name);
        return body(member as JsonObject, place, `${join(path, word)}[${name ?? names.length - 1}]`, depth + 1);
      })(value, at, "");
      once(names, at, ".name");
      return found;
    };
    const any = read("any_of", listed("any_of"));
    const every = read("all_of", listed("all_of")) ?? [];
    const some = read("at_least", (value, at) => {
      const inner = choiceRecord(value, at, "");
      const of = listed("at_least")(inner.of, join(at, "of"), "");
      return choiceOf(path, "at_least", integer(1, of.length)(inner.count, join(at, "count"), ""), of);
    });
    return [...(any ? [choiceOf(path, "any_of", 1, any)] : []), ...every, ...(some ? [some] : [])];
  }

  /** Evidence is verified once for all branches: what one of them tolerates, all would. */
  function one(key: "gpu" | "nvswitch"): Tolerated {
    const [first, ...others] = tolerated[key];
    const alike = ([, { waivedMeasurements, heldRimSigners }]: [string, Tolerated]): string => JSON.stringify([Object.entries(waivedMeasurements).sort(), heldRimSigners]);
    const odd = first && others.find((other) => alike(other) !== alike(first));
    return odd ? refuse(odd[0], `what ${first[0]} tolerates`, "others") : (first?.[1] ?? { waivedMeasurements: {}, heldRimSigners: undefined });
  }

  const judge = body(top, "", "", 0);
  return { judge, tolerances: { gpus: one("gpu"), switches: one("nvswitch") } };
}

/** Ask the same of the CPU's report within Azure evidence. */
const within = (rules: readonly Rule[], prefix: string): Rule[] => rules.map((rule) => ({ ...rule, claim: (claims) => rule.claim((claims[prefix] ?? {}) as Claims) }));
