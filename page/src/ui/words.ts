/** What the page says in words. */

import type { Phase, State } from "./state";

interface Told {
  readonly symbol: string;
  readonly word: string;
  readonly why: string;
}

export const PHASES: Readonly<Record<Phase, Told>> = {
  checking: { symbol: "…", word: "Checking", why: "The machine is asked for proof. Nothing but a random number is sent." },
  unknown: { symbol: "?", word: "Genuine, but not yet trusted by you", why: "The hardware is what it says. Look at what it runs, and decide whether you accept that." },
  trusted: { symbol: "✓", word: "Matches your policy", why: "The hardware is genuine. It runs what the policy accepts." },
  stopped: { symbol: "✕", word: "Stopped", why: "" },
};

export const SIGNS: Readonly<Record<string, string>> = { pass: "✓ pass", fail: "✕ fail", warning: "! warning", "not evaluated": "– not evaluated" };

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
  attestation_key: "the key that signs was made by Intel's quoting enclave",
  arch: "the device is of a known kind",
  chain: "its key's certificates lead to the vendor's root",
  chain_validity: "all these certificates are valid today",
  chip_id: "the certificate is that of this chip",
  claims: "what the VM says agrees with what the processor signed",
  data: "the log's data is what was measured",
  device_nonce: "each device answered this very question",
  devices: "all devices belong to this machine",
  extra_data: "the TPM signed for this very question",
  format: "it can be read whole",
  fwid: "the certificate is for the firmware that runs",
  leaf: "the certificate is one for reports",
  leaf_validity: "the certificate is valid today",
  leaf_binding: "the key belongs to this device",
  measurements: "its firmware and driver are those that the vendor published",
  mode: "all devices work in one mode",
  module: "the TDX module is Intel's",
  nonce: "it answers the question asked just now",
  pck_certificate: "the certificate is that of this platform",
  pck_chain: "its certificates lead to Intel's root, valid and not revoked",
  pcr_digest: "the registers are those that were signed",
  product: "report and certificate are of one product line",
  qe_identity: "the quoting enclave is one that Intel counts as current",
  qe_report_signature: "the platform's key signed for the quoting enclave",
  quote_signature: "the quote is signed by the attestation key",
  registers: "the log belongs to these registers",
  replay: "the log adds up to the signed registers",
  report_data: "the processor signed for this service, this moment and this key",
  revocation: "no certificate is revoked",
  rim_conflict: "the vendor's reference values agree with each other",
  root: "the root is one that is built into this page",
  runtime_data: "the VM's keys are those that the processor signed",
  signature: "the report is signed by the hardware's key",
  signing_key: "the kind of key is known",
  stated_nonce: "its answer names the question",
  tcb: "the certificate is for the firmware that runs",
  tcb_info: "Intel's word on this firmware is signed and current",
  tcb_order: "the firmware versions are consistent",
  tcb_status: "the vendor counts its firmware as up to date",
  td_report: "the VM is the one that the processor measured",
  tpm_quote: "the virtual TPM answered",
  tpm_signature: "the virtual TPM's key signed",
  unique: "no device is shown twice",
  user_data: "the report is about this virtual TPM",
  vmpl: "the report was made by the most privileged part",
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
  if (phase !== "stopped") return simulated ? PHASES[phase].why.replace(/^The hardware is (genuine|what it says)/, "A simulator signed this, no hardware") : PHASES[phase].why;
  if (problem) return `${problem.message} [${problem.code}].`;
  return `The proof is genuine, but the machine is not what the policy accepts: ${rows.filter(({ outcome }) => outcome === "fail").map(({ label }) => label).join("; ")}.`;
}

/** An absolute moment, and how long ago. */
export function moment(at: number, now: number): string {
  const seconds = Math.max(0, Math.round((now - at) / 1000));
  const ago = seconds < 60 ? `${seconds} s` : `${Math.round(seconds / 60)} min`;
  return `${new Date(at).toISOString().slice(0, 19).replace("T", " ")} UTC, ${ago} ago`;
}
