/** What the page says in words. */

import type { Phase, State } from "./state";

interface Told {
  readonly symbol: string;
  readonly word: string;
  readonly why: string;
}

export const PHASES: Readonly<Record<Phase, Told>> = {
  checking: {
    symbol: "…",
    word: "Checking",
    why: "The machine is asked for proof. Nothing but a random number is sent.",
  },
  unknown: {
    symbol: "?",
    word: "Genuine, but not yet trusted by you",
    why: "The hardware is what it says. Look at what it runs, and decide whether you accept that.",
  },
  trusted: {
    symbol: "✓",
    word: "Matches your policy",
    why: "The hardware is genuine. It runs what the policy accepts.",
  },
  stopped: { symbol: "✕", word: "Stopped", why: "" },
};

/** The worst first, as lists show them. */
export const SIGNS = { fail: "✕ fail", warning: "! warning", "not evaluated": "– not evaluated", pass: "✓ pass" };

interface Judged {
  readonly outcome: keyof typeof SIGNS;
}
const OUTCOMES = Object.keys(SIGNS);

export const worstFirst = <T extends Judged>(found: readonly T[]): T[] =>
  [...found].sort((a, b) => OUTCOMES.indexOf(a.outcome) - OUTCOMES.indexOf(b.outcome));

/** What a check is about, by the first part of its id. */
const SUBJECTS: Readonly<Record<string, string>> = {
  snp: "AMD processor",
  tdx: "Intel processor",
  sgx: "Intel enclave",
  intel: "Intel processor",
  nvidia: "NVIDIA device",
  gpu: "GPU",
  azure: "Azure VM",
  tpm: "Virtual TPM",
  binding: "Connection",
  eventlog: "Event log",
  device: "Devices",
  policy: "Your policy",
  evidence: "Evidence",
};

/** What a check asks, by the rest of its id. */
const QUESTIONS: Readonly<Record<string, string>> = {
  attestation_key: "Intel's quoting enclave made the key that signed",
  arch: "its kind is known",
  chain: "the certificates of its key lead to the vendor's root",
  chain_validity: "these certificates are valid today",
  chip_id: "the certificate is that of this chip",
  claims: "what the VM says is what the processor signed",
  data: "its data is what was measured",
  device_nonce: "each device answered this question",
  devices: "all devices belong to this machine",
  extra_data: "the TPM signed for this question",
  format: "it can be read whole",
  fwid: "the certificate is for the firmware that runs",
  leaf: "the certificate is one for reports",
  leaf_validity: "the certificate is valid today",
  leaf_binding: "the key belongs to this device",
  measurements: "its firmware and driver are what the vendor published",
  mode: "all devices work in one mode",
  module: "the TDX module is Intel's",
  nonce: "it answers this question",
  pck_certificate: "the certificate is that of this platform",
  pck_chain: "the certificates of its key lead to Intel's root",
  pcr_digest: "the registers are those that were signed",
  product: "report and certificate are of one product",
  qe_identity: "the quoting enclave is one that Intel knows",
  qe_report_signature: "the platform's key signed for the quoting enclave",
  quote_signature: "the attestation key signed the quote",
  registers: "the log belongs to these registers",
  replay: "it adds up to the signed registers",
  report_data: "the processor signed for this service, this question and this key",
  revocation: "no certificate is revoked",
  rim_conflict: "the reference values agree with each other",
  root: "the root is one that is built into this page",
  runtime_data: "the VM's keys are what the processor signed",
  signature: "the hardware's key signed the report",
  signing_key: "the kind of key is known",
  stated_nonce: "its answer names the question",
  tcb: "the certificate is for the firmware that runs",
  tcb_info: "what Intel says of this firmware is signed and valid today",
  tcb_order: "the firmware versions agree with each other",
  tcb_status: "the vendor says that its firmware is up to date",
  td_report: "the VM is what the processor measured",
  tpm_quote: "the TPM answered",
  tpm_signature: "the TPM's key signed",
  unique: "no device is shown twice",
  user_data: "the report is for this TPM",
  vmpl: "the most privileged part of the VM asked for the report",
};

const RIMS: Readonly<Record<string, string>> = {
  "": "are there",
  _chain: "lead to NVIDIA's root",
  _revocation: "are by nobody whose certificate is revoked",
  _signature: "are signed",
};

/** A sentence for a check; one without an entry says its id in words. */
export function sentence(id: string): string {
  if (id === "freshness") return "Evidence: made for this question, and not before";
  const [head = "", ...rest] = id.split(".");
  const asked = rest.join(" ") || head;
  // A RIM: what NVIDIA publishes of a driver, or of the firmware of a device.
  const rim = /^(driver|vbios)_rim(.*)/.exec(asked);
  const told = rim ? `reference values of the ${rim[1]} ${RIMS[rim[2] ?? ""] ?? ""}` : QUESTIONS[rest.at(-1) ?? ""];
  return `${SUBJECTS[head] ?? head}: ${told ?? asked.replaceAll("_", " ")}`;
}

export function reason(state: State): string {
  const { phase, problem, rows, simulated } = state;
  if (phase !== "stopped") {
    return simulated
      ? PHASES[phase].why.replace(/^The hardware is (genuine|what it says)/, "A simulator signed this, no hardware")
      : PHASES[phase].why;
  }
  if (problem) return `${problem.message} [${problem.code}].`;
  return `The proof is genuine, but the machine is not what the policy accepts: ${rows
    .filter(({ outcome }) => outcome === "fail")
    .map(({ label }) => label)
    .join("; ")}.`;
}

/** What there is of several parts. */
export const joined = (...parts: readonly (string | false | undefined)[]): string => parts.filter(Boolean).join(" ");

/** An absolute moment, and how long ago. */
export function moment(at: number, now: number): string {
  const seconds = Math.max(0, Math.round((now - at) / 1000));
  const ago = seconds < 60 ? `${seconds} s` : `${Math.round(seconds / 60)} min`;
  return `${new Date(at).toISOString().slice(0, 19).replace("T", " ")} UTC, ${ago} ago`;
}
