/** The policy document of the Python engine (docs/policy.md), read for a page: closed, strict, and never partly. */

import { hex, utf8 } from "../verifier/bytes";
import { UNCHECKED_NAMES } from "../verifier/checks";
import { sha256 } from "../verifier/crypto";
import { sgxRules, snpRules, tdxRules } from "./cpu";
import {
  type Decoder, type JsonObject, type JsonValue, canonical, choice, demand, integer, join, listOf, notHere, optional, parsed, refuse, required, section,
  tableOf, text,
} from "./decode";
import { type Tolerated, azureRules, cpuRule, deviceRules, gpuRules, leaveRimsUnchecked, ofCpu, switchRules, toleratedBy } from "./devices";
import { type References, referencesOf } from "./references";
import type { Rule } from "./rules";

/** The rules of one section; kind `set` is for all devices together. */
export interface Leaf {
  readonly path: string;
  readonly kind: string;
  readonly rules: readonly Rule[];
}

/** A body: everything in it is demanded. */
export interface Body {
  readonly path: string;
  readonly members: readonly (Leaf | Body | Choice)[];
}

/** Alternatives of which so many have to hold. */
export interface Choice {
  readonly path: string;
  readonly word: "any_of" | "at_least";
  readonly count: number;
  readonly of: readonly Body[];
}

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
  readonly tree: Body;
  /** The document itself. */
  readonly document: JsonObject;
}

const BODY = ["azure", "snp", "tdx", "sgx", "gpu", "nvswitch", "devices", "any_of", "all_of", "at_least"];
const TOP = ["schema", "name", "version", "description", "simulated", "unchecked", "verifiers", "references", "reference_values", ...BODY];
const [MAX_NESTING, MAX_BRANCHES, MAX_BYTES] = [4, 64, 1 << 20];
const CPU_KINDS = ["sev-snp", "tdx", "sgx", "azure-snp", "azure-tdx"];

/** Read a policy: `policy-unreadable`, `policy-invalid` with a path, or `policy-not-for-pages` for what only the command line judges. */
export async function loadPolicy(document: string): Promise<Policy> {
  if (document.length > MAX_BYTES) throw refuse("document", `at most ${MAX_BYTES} characters`, document.length);
  const top = section(parsed(document), "", TOP);
  required(top, "", "schema", choice(["attest.policy/1"]));
  for (const key of ["verifiers", "references"]) if (key in top) throw notHere(key);
  const references = referencesOf(top);
  const unchecked = optional(top, "", "unchecked", tableOf(text, UNCHECKED_NAMES), []).map(([check, reason]) => ({ check, reason }));
  const rim = unchecked.find(({ check }) => check === "rim");
  if (rim) leaveRimsUnchecked(references, rim.reason);
  const simulated = optional(top, "", "simulated", demand(choice(["refuse"])), undefined);
  const reader = new BodyReader(references);
  const tree = reader.body(top, "", "", 0);
  optional(top, "", "description", text, "");
  return {
    name: required(top, "", "name", nameOf),
    version: required(top, "", "version", integer(1, 2 ** 31)),
    digest: hex(await sha256(utf8(canonical(top)))),
    simulated: simulated && "unchecked" in simulated ? simulated.unchecked : undefined,
    unchecked,
    tolerances: reader.tolerances(),
    tree,
    document: top,
  };
}

const nameOf: Decoder<string> = (value, path) => {
  if (typeof value !== "string" || !/^[a-z0-9][a-z0-9._-]{0,63}$/.test(value)) throw refuse(path, "lower-case letters, digits, '.', '_' and '-', at most 64", value);
  return value;
};

const branchName: Decoder<string> = (value, path) => {
  const name = nameOf(value, path);
  if (/^\d+$/.test(name)) throw refuse(path, "a name that is no number: branches without a name are numbered", value);
  return name;
};

/** Reads bodies, counting their branches over the whole policy. */
class BodyReader {
  private branches = 0;
  private readonly tolerated: Record<"gpu" | "nvswitch", [string, Tolerated][]> = { gpu: [], nvswitch: [] };

  constructor(private readonly references: References) {}

  /** Read one body. `at` is its place in the document, `path` the name that its checks carry. */
  body(members: JsonObject, at: string, path: string, depth: number): Body {
    const sections = this.sections(members, at);
    const choices = this.choices(members, at, path, depth);
    if (!sections.size && !choices.length) throw refuse(join(at, "snp"), "demands on at least one kind of Attester, or branches", undefined);
    const kinds = CPU_KINDS.filter((kind) => sections.has(kind));
    const [gpus, switches] = [sections.has("nvidia-gpu"), sections.has("nvidia-switch")];
    const alone = depth === 0 && !choices.length;
    const together =
      gpus || switches || "devices" in members
        ? deviceRules(members["devices"], join(at, "devices"), { gpus, switches }, kinds)
        : alone || !kinds.length ? [] : cpuRule(kinds);
    const leaves = [...sections].map(([kind, rules]): Leaf => ({ path, kind, rules }));
    return { path, members: [...(together.length ? [{ path, kind: "set", rules: together }] : []), ...leaves, ...choices] };
  }

  private sections(members: JsonObject, at: string): Map<string, Rule[]> {
    const found = new Map<string, Rule[]>();
    const read = (key: string, rules: (value: JsonValue, path: string, references: References) => Rule[]): Rule[] | undefined => {
      const value = members[key];
      return value === undefined ? undefined : rules(value, join(at, key), this.references);
    };
    const [gpu, nvswitch, azure] = [read("gpu", gpuRules), read("nvswitch", switchRules), read("azure", azureRules)];
    const cpus = [["snp", "sev-snp", read("snp", snpRules)], ["tdx", "tdx", read("tdx", tdxRules)]] as const;
    for (const [key, kind, rules] of cpus) {
      if (rules) found.set(azure ? `azure-${key}` : kind, azure ? [...azure, ...ofCpu(rules, key)] : rules);
    }
    if (azure && !found.size) throw refuse(join(at, "azure"), "the key snp or tdx beside it, which judges the CPU's report of the VM", "neither");
    for (const [kind, rules] of [["sgx", read("sgx", sgxRules)], ["nvidia-gpu", gpu], ["nvidia-switch", nvswitch]] as const) if (rules) found.set(kind, rules);
    for (const key of ["gpu", "nvswitch"] as const) {
      const value = members[key];
      if (value !== undefined) this.tolerated[key].push([join(at, key), toleratedBy(value, join(at, key), key)]);
    }
    return found;
  }

  private choices(members: JsonObject, at: string, path: string, depth: number): (Body | Choice)[] {
    const read = (word: string): Decoder<Body[]> => (value, place) => this.listed(value, place, join(path, word), depth + 1);
    const any = optional(members, at, "any_of", read("any_of"), []);
    const all = optional(members, at, "all_of", read("all_of"), []);
    const some = optional(members, at, "at_least", (value, place): Choice => {
      const inner = section(value, place, ["count", "of"]);
      const of = required(inner, place, "of", read("at_least"));
      return { path, word: "at_least", count: required(inner, place, "count", integer(1, of.length)), of };
    }, undefined);
    return [...(any.length ? [{ path, word: "any_of", count: 1, of: any } as const] : []), ...all, ...(some ? [some] : [])];
  }

  private listed(value: JsonValue, at: string, path: string, depth: number): Body[] {
    if (depth > MAX_NESTING) throw refuse(at, `branches at most ${MAX_NESTING} deep`, value);
    const names = new Set<string>();
    let index = -1;
    return listOf((member, place) => {
      if (++this.branches > MAX_BRANCHES) throw refuse(place, `at most ${MAX_BRANCHES} branches in a policy`, value);
      const members = section(member, place, ["name", ...BODY]);
      const name = optional(members, place, "name", branchName, "");
      if (name && names.has(name)) throw refuse(join(place, "name"), "a name that no other branch here has", name);
      names.add(name);
      index += 1;
      return this.body(members, place, `${path}[${name || index}]`, depth);
    })(value, at);
  }

  /** Evidence is verified once for all branches: what one of them tolerates, all would. */
  tolerances(): Policy["tolerances"] {
    const one = (key: "gpu" | "nvswitch"): Tolerated => {
      const [first, ...others] = this.tolerated[key];
      const alike = ({ waivedMeasurements, heldRimSigners }: Tolerated): string => JSON.stringify([Object.entries(waivedMeasurements).sort(), heldRimSigners]);
      const odd = first && others.find(([, other]) => alike(other) !== alike(first[1]));
      if (odd) throw refuse(odd[0], `the same waived_measurements and held_rim_signers as in ${first[0]}`, "others");
      return first?.[1] ?? { waivedMeasurements: {} };
    };
    return { gpus: one("gpu"), switches: one("nvswitch") };
  }
}
