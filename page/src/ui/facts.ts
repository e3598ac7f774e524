/** Five facts that a person wants to know of a machine, out of what was verified and judged. */

import { told, type Claims, claimOf } from "../policy/claims";
import type { Row } from "../policy/row";
import type { ItemResult, Result } from "../verifier/api";
import type { Problem } from "./problems";
import { sayFirst } from "./strings";
import type { PolicyInForce, State } from "./state";

/** Established, not met, or not known. */
export type Tone = "yes" | "no" | "open" | "simulated";
export type FactId = "chip" | "memory" | "gpu" | "software" | "reader";

export interface Fact {
  readonly id: FactId;
  readonly tone: Tone;
  readonly sentence: string;
  /** What it rests on, by name. */
  readonly details: readonly (readonly [string, string])[];
}

type Finding = readonly [Tone, string, Fact["details"]?];

const FACTS: readonly FactId[] = ["chip", "memory", "gpu", "software", "reader"];

/** The fact that a row of the policy, or a check, is about. */
function factOf(id: string): FactId {
  const name = id.replace(/^policy\./, "");
  if (/^(?:binding|freshness|channel|nonce)/.test(name)) return "reader";
  if (/^(?:gpu|nvswitch|nvidia|devices?)\b/.test(name)) return "gpu";
  if (/measurement|mr_td|rtmr|mr_enclave|pcr|signer|isv|event_?log|dstack|host_data|key_digest/.test(name)) {
    return "software";
  }
  return /^(?:snp|tdx)\.(?:policy|td_attributes|vmpl|platform)|debug/.test(name) ? "memory" : "chip";
}

export function factsOf(state: State): readonly Fact[] {
  const found = findings(state);
  return FACTS.map((id) => {
    const [tone, sentence, details = []] = found[id];
    return { id, tone, sentence, details: [...details, ...checksOf(state.result, id)] };
  });
}

function findings(state: State): Readonly<Record<FactId, Finding>> {
  const { phase, result, problem, simulated } = state;
  const { facts } = sayFirst();
  const all = (finding: Finding): Record<FactId, Finding> => {
    return { chip: finding, memory: finding, gpu: finding, software: finding, reader: finding };
  };
  if (phase === "checking" || phase === "unreachable") return all(["open", facts.pending]);
  if (phase === "refused" && problem) return { ...all(["open", facts.unjudged]), ...refuted(problem) };
  if (!result || result.error) return all(["open", facts.pending]);
  return simulated ? simulatedFindings(state, result) : realFindings(state, result);
}

/** The one fact that does not hold; of what rests on the same proof nothing is known. */
function refuted({ check, code }: Problem): Partial<Record<FactId, Finding>> {
  const { facts } = sayFirst();
  if (code.startsWith("provenance-")) return { software: ["no", facts.software.unproved] };
  const failed = check ?? /^(?:nonce|binding)/.exec(code)?.[0];
  if (failed === undefined) return {};
  const id = factOf(failed);
  return { [id]: ["no", facts[id].no] };
}

const failing = ({ rows }: State, id: FactId): Row[] =>
  rows.filter((row) => row.outcome === "fail" && row.kinds.length > 0 && factOf(row.id) === id);

function simulatedFindings(state: State, result: Result): Readonly<Record<FactId, Finding>> {
  const { facts } = sayFirst();
  const known = realFindings(state, result);
  const of = (id: FactId): Finding => {
    const [tone, sentence, details = []] = known[id];
    const isPart = id !== "gpu" || result.items.some(({ kind }) => kind === "nvidia-gpu");
    if (tone === "no" || !isPart) return [tone, sentence, details];
    return ["simulated", facts[id].simulated, details];
  };
  return { chip: of("chip"), memory: of("memory"), gpu: of("gpu"), software: of("software"), reader: of("reader") };
}

function realFindings(state: State, result: Result): Readonly<Record<FactId, Finding>> {
  const cpu = result.items.find(({ kind }) => !kind.startsWith("nvidia"));
  const claims = silicon(cpu);
  return {
    chip: chip(state, cpu, claims),
    memory: memory(state, claims),
    gpu: gpu(state, result.items),
    software: software(state, claims),
    reader: reader(state, result),
  };
}

/** The claims of the processor itself, which a VM of Azure's carries inside its own. */
const silicon = (cpu: ItemResult | undefined): Claims =>
  (cpu?.claims.snp ?? cpu?.claims.tdx ?? cpu?.claims ?? {}) as Claims;

function chipName(cpu: ItemResult | undefined, claims: Claims): string {
  const kind = cpu?.kind ?? "";
  if (kind.includes("snp")) return `AMD ${told(claims.product)}`;
  return kind.includes("tdx") ? "Intel TDX" : "Intel SGX";
}

function chip(state: State, cpu: ItemResult | undefined, claims: Claims): Finding {
  const { facts, factDetails } = sayFirst();
  if (!cpu) return ["open", facts.pending];
  const name = chipName(cpu, claims);
  const firmware = claims.reported_tcb ?? claims.tcb_status ?? claims.tee_tcb_svn;
  const details: Fact["details"] = [
    [factDetails.chip, name],
    ...(firmware === undefined ? [] : [[factDetails.firmware, told(firmware)] as const]),
  ];
  return failing(state, "chip").length
    ? ["no", facts.chip.firmware(name), details]
    : ["yes", facts.chip.yes(name), details];
}

function memory(state: State, claims: Claims): Finding {
  const { facts, factDetails } = sayFirst();
  const debug = ["policy.debug", "td_attributes.debug", "attributes.debug"]
    .map((name) => claimOf(claims, name))
    .find((value) => value !== undefined);
  if (debug === undefined) return ["open", facts.pending];
  const details = [[factDetails.debug, debug === false ? factDetails.off : factDetails.on]] as const;
  const holds = debug === false && !failing(state, "memory").length;
  return holds ? ["yes", facts.memory.yes, details] : ["no", facts.memory.no, details];
}

function gpu(state: State, items: readonly ItemResult[]): Finding {
  const { facts, factDetails } = sayFirst();
  const gpus = items.filter(({ kind }) => kind === "nvidia-gpu");
  if (failing(state, "gpu").length) return ["no", facts.gpu.no];
  if (!gpus.length) return ["open", facts.gpu.none];
  const name = `${gpus.length} × NVIDIA ${[...new Set(gpus.map(({ claims }) => told(claims.product)))].join(", ")}`;
  const modes = gpus.map(({ claims }) => claimOf(claims, "nvml.cc_mode"));
  const tools = gpus.map(({ claims }) => claimOf(claims, "nvml.dev_tools_mode"));
  const details: Fact["details"] = [
    [factDetails.gpus, name],
    [factDetails.mode, told([...new Set(modes.map((mode) => mode ?? "–"))])],
    [factDetails.developer, told([...new Set(tools.map((tool) => tool ?? "–"))])],
  ];
  if (modes.includes(false) || tools.includes(true)) return ["no", facts.gpu.no, details];
  return modes.every((mode) => mode === true) && tools.every((tool) => tool === false)
    ? ["yes", facts.gpu.yes(name), details]
    : ["open", facts.gpu.unstated(name), details];
}

function software(state: State, claims: Claims): Finding {
  const { facts, factDetails } = sayFirst();
  const { phase, policy } = state;
  const measured = claims.measurement ?? claims.mr_td ?? claims.mr_enclave;
  const details: Fact["details"] = measured === undefined ? [] : [[factDetails.measurement, told(measured)]];
  if (failing(state, "software").length) return ["no", facts.software.no, details];
  const known = policy && vouchedFor(policy, details);
  if (known) return known;
  return ["open", phase === "trusted" ? facts.software.accepted : facts.software.unknown, details];
}

/** Software that signed documents vouch for, or documents whose build is proved. */
function vouchedFor({ documents, built }: PolicyInForce, details: Fact["details"]): Finding | undefined {
  const { yes } = sayFirst().facts.software;
  const signed = documents.length ? [yes(documents.join(", "))] : [];
  const sentences = [...signed, ...built.map(({ sentence }) => sentence)];
  if (!sentences.length) return undefined;
  return ["yes", sentences.join(" "), [...details, ...built.flatMap((one) => one.details)]];
}

function reader(state: State, result: Result): Finding {
  const { facts, factDetails } = sayFirst();
  const isBound = result.checks.some(({ id, outcome }) => id === "binding.report_data" && outcome === "pass");
  const details: Fact["details"] = state.key ? [[factDetails.key, state.key.digest]] : [];
  if (failing(state, "reader").length) return ["no", facts.reader.no, details];
  return isBound && result.freshness === "matched"
    ? ["yes", facts.reader.yes, details]
    : ["open", facts.pending, details];
}

function checksOf(result: Result | undefined, id: FactId): Fact["details"] {
  const checks = (result?.checks ?? []).filter((check) => factOf(check.id) === id);
  const { checks: name, passed } = sayFirst().factDetails;
  return checks.length
    ? [[name, passed(checks.filter(({ outcome }) => outcome === "pass").length, checks.length)]]
    : [];
}
