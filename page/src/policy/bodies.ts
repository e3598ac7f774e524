/** The bodies of a policy: its sections and branches, each read into what judges by it. */

import type { Claims } from "./claims";
import { type JsonObject, isObject } from "../verifier/json";
import {
  type Json,
  type Reader,
  anything,
  canonical,
  integer,
  join,
  like,
  listOf,
  maybe,
  once,
  record,
  refuse,
} from "./decode";
import { type Judge, all, choiceOf, leaf } from "./judge";
import type { References } from "./references";
import { type Row, type Rule, oneOf, optional, rule } from "./rules";
import { snpRows } from "./snp";
import { NOTHING_TOLERATED, type Tell, type Tolerated } from "./tolerances";

/** Sections, and the kinds of Attesters that they judge. */
export const KINDS: Readonly<Record<string, string>> = {
  snp: "sev-snp",
  tdx: "tdx",
  sgx: "sgx",
  gpu: "nvidia-gpu",
  nvswitch: "nvidia-switch",
  sample: "sample",
};
/** Members of a body about more than an SEV-SNP report. Their code is fetched when a policy has one. */
export const OTHER_CPUS = ["azure", "tdx", "dstack", "sgx", "sample"];
export const DEVICES = ["gpu", "nvswitch", "devices"];

/** The code that reads it; undefined where it is not needed. */
export interface Others {
  readonly cpus: typeof import("./other_cpus") | undefined;
  readonly devices: typeof import("./devices") | undefined;
}

type Table = Readonly<Record<string, Reader<unknown>>>;
export const unread = (keys: readonly string[]): Table => Object.fromEntries(keys.map((key) => [key, anything]));

export const NAME = "[a-z\\d][a-z\\d._-]{0,63}";
/** Branches without a name are numbered, so that no name is a number. */
const branchName = like(`(?!\\d+$)${NAME}`);
const MAX_DEPTH = 3;
const MAX_BRANCHES = 64;

/** Rules of a policy, and the tolerances that verification needs. */
export interface ReadBodies {
  readonly judge: Judge;
  readonly tolerances: Readonly<Record<"gpus" | "switches", Tolerated>> & {
    readonly spls: Readonly<Record<string, string>>;
  };
}

/** Rules by section. */
type Sections = Partial<Record<string, Rule[]>>;

/** A body that was read; what it leaves out is undefined. */
interface Body {
  readonly devices: Json;
  readonly any_of: Judge[] | undefined;
  readonly all_of: Judge[] | undefined;
  readonly at_least: Judge | undefined;
}

/** Place of a body. */
interface Place {
  /** In the document. */
  readonly at: string;
  /** The name that its checks carry. */
  readonly path: string;
  readonly depth: number;
  /** Other members that are permitted there. */
  readonly beside: Table;
}

/** True if a policy may speak of one of these, in any of its branches. */
export function speaksOf(names: readonly string[], value: Json): boolean {
  if (Array.isArray(value)) return value.some((member) => speaksOf(names, member));
  const members = isObject(value) ? Object.entries(value) : [];
  return members.some(([key, member]) => names.includes(key) || speaksOf(names, member));
}

/** Evidence is verified once for all branches: what one of them tolerates, all would. */
function agreed<T = Tolerated>(take: (tolerated: T) => void): Tell<T> {
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
const leavesOf = ({ azure, dstack = [], ...sections }: Sections): [kind: string, rules: Rule[]][] =>
  Object.entries(KINDS).flatMap(([key, kind]): [string, Rule[]][] => {
    const rules = key === "tdx" ? sections.tdx?.concat(dstack) : sections[key];
    if (!rules) return [];
    return [azure && /snp|tdx/.test(key) ? [`azure-${key}`, [...azure, ...within(rules, key)]] : [kind, rules]];
  });

/** Read all bodies of a policy. @param rim why that is unchecked for all of it */
export function readBodies(
  top: Json,
  beside: readonly string[],
  references: References,
  rim: string | undefined,
  others: Others,
): ReadBodies {
  const tolerances = {
    gpus: NOTHING_TOLERATED,
    switches: NOTHING_TOLERATED,
    spls: {} as Readonly<Record<string, string>>,
  };
  const strict: Json = rim === undefined ? true : { unchecked: rim };
  const tellGpus = agreed((tolerated) => {
    tolerances.gpus = tolerated;
  });
  const tellSwitches = agreed((tolerated) => {
    tolerances.switches = tolerated;
  });
  const tellSpls = agreed<Readonly<Record<string, string>>>((spls) => {
    tolerances.spls = spls;
  });
  const { cpus, devices } = others;
  const found = cpus?.cpuRows(references);
  const of = (name: string): Row => found?.[name] ?? unfetched;
  const bodies = new BodyReader(
    {
      azure: of("azure"),
      snp: snpRows(references, tellSpls),
      tdx: of("tdx"),
      dstack: of("dstack"),
      sgx: of("sgx"),
      gpu: devices?.gpuRows(strict, tellGpus) ?? unfetched,
      nvswitch: devices?.switchRows(strict, tellSwitches) ?? unfetched,
      sample: of("sample"),
    },
    others,
  );
  const judge = bodies.read(top, { at: "", path: "", depth: 0, beside: unread(beside) });
  return { judge, tolerances };
}

const unfetched = (): never => {
  throw new TypeError("a section without its code");
};

class BodyReader {
  private branches = 0;

  constructor(
    private readonly rows: Readonly<Record<string, Row>>,
    private readonly others: Others,
  ) {}

  /** Read one body. */
  read(value: Json, place: Place): Judge {
    const { at, path } = place;
    const { devices, any_of: any, all_of: every = [], at_least: least, ...sections } = this.members(value, place);
    requireAzure(sections, at);
    requireBoot(sections, at, this.others.cpus?.LOADER ?? []);
    requireImageOfDstack(sections, at);
    const leaves = leavesOf(sections);
    const choices = [...(any ? [choiceOf(path, "any_of", 1, any)] : []), ...every, ...(least ? [least] : [])];
    if (!leaves.length && !choices.length) refuse(join(at, "snp"), "a section, or branches");
    const together = togetherRules(
      leaves,
      devices,
      place,
      choices.length > 0,
      this.others.devices?.deviceRules ?? unfetched,
    );
    const own: [kind: string, rules: readonly Rule[]][] = [["", together], ...leaves];
    return all(path, [...own.map(([kind, rules]) => leaf(path, kind, rules)), ...choices]);
  }

  private members(value: Json, { at, path, depth, beside }: Place): Body & Sections {
    const listed = (word: string): Reader<Judge[] | undefined> => maybe(this.listed(word, path, depth));
    const table = {
      ...beside,
      ...optional(this.rows),
      devices: anything,
      any_of: listed("any_of"),
      all_of: listed("all_of"),
      at_least: maybe(this.atLeast(path, depth)),
    };
    return record(table)(value, at, "") as Body & Sections;
  }

  /** Read the branches of a combinator in a body so deep. */
  private listed(word: string, path: string, depth: number): Reader<Judge[]> {
    return (list, place, key) => {
      if (depth > MAX_DEPTH) refuse(place, `branches at most ${MAX_DEPTH + 1} deep`);
      const names: unknown[] = [];
      const branch: Reader<Judge> = (member, at) => {
        this.branches += 1;
        if (this.branches > MAX_BRANCHES) refuse(at, `at most ${MAX_BRANCHES} branches`);
        const name = maybe(branchName)((member as JsonObject | null)?.name, join(at, "name"), "");
        names.push(name);
        const own = `${join(path, word)}[${name ?? names.length - 1}]`;
        return this.read(member, { at, path: own, depth: depth + 1, beside: { name: anything } });
      };
      const found = listOf(branch)(list, place, key);
      once(names, place, ".name");
      return found;
    };
  }

  private atLeast(path: string, depth: number): Reader<Judge> {
    return (value, place, key) => {
      const { of, count } = record({ of: this.listed("at_least", path, depth), count: anything })(value, place, key);
      return choiceOf(path, "at_least", integer(1, of.length)(count, join(place, "count"), key), of);
    };
  }
}

/** An Azure VM has a CPU's report, and its event log is the TPM's. */
function requireAzure({ azure, snp, tdx }: Sections, at: string): void {
  if (!azure) return;
  if (!snp && !tdx) refuse(join(at, "azure"), "snp or tdx beside it");
  if (tdx?.some(({ id }) => id.includes("event_log"))) refuse(join(at, "tdx.event_log"), "azure.event_log");
}

/** MRTD measures the firmware alone: a TD outside Azure is judged by what it booted, or that is relaxed by name. */
function requireBoot({ azure, tdx }: Sections, at: string, loader: readonly string[]): void {
  const judges = new RegExp(`\\.(rtmr[12]|event_log\\.(${loader.join("|")}))$`);
  if (!azure && tdx && !tdx.some(({ id }) => judges.test(id))) {
    refuse(join(at, "tdx"), "rtmr1 or rtmr2, or the boot loader's lists of event_log");
  }
}

/** The events of dstack are as good as the code that extends them, which RTMR1 and RTMR2 measure. */
function requireImageOfDstack({ azure, tdx = [], dstack }: Sections, at: string): void {
  if (!dstack) return;
  if (azure) refuse(join(at, "dstack"), "no section azure beside it");
  const isMeasured = ["rtmr1", "rtmr2"].every((name) => tdx.some(({ id }) => id === `policy.tdx.${name}`));
  if (!isMeasured) refuse(join(at, "dstack"), "tdx with rtmr1 and rtmr2 beside it");
}

/** A CPU of one of these kinds came along. Nothing relaxes it. */
const cpuRule = (kinds: readonly string[]): Rule => ({
  ...rule("devices.cpu", { value: kinds }, oneOf, "cpu_kind"),
  path: undefined,
});

/** The rules over all devices: those of the section `devices`, and which CPU has to be there. */
function togetherRules(
  leaves: readonly (readonly [kind: string, rules: readonly Rule[]])[],
  devices: Json,
  { at, depth }: Place,
  hasChoices: boolean,
  deviceRules: (...given: Parameters<typeof import("./devices").deviceRules>) => Rule[],
): Rule[] {
  const kinds = leaves.map(([kind]) => kind);
  const cpus = kinds.filter((kind) => !kind.startsWith("nvidia"));
  const gpus = kinds.filter((kind) => kind.includes("gpu")).length;
  const switches = kinds.filter((kind) => kind.includes("switch")).length;
  const isSpoken = gpus + switches > 0 || devices !== undefined;
  const rules = isSpoken ? deviceRules(devices, join(at, "devices"), gpus, switches) : [];
  // Without branches, evidence of another kind of CPU is refused as a kind that the policy does not speak of.
  const isCpuDemanded = isSpoken || depth > 0 || hasChoices;
  return cpus.length && isCpuDemanded ? [...rules, cpuRule(cpus)] : rules;
}
