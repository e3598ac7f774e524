/**
 * Evidence of one NVIDIA device: its report, the chain that came with it, and what NVML said of the machine's mode.
 *
 * A raw report travels alone, and its chain lies among the endorsements. The JSON object of NVIDIA's SDK carries both;
 * anything else in it is an unsigned hint. The member `nvml` counts for something only where a CPU's evidence
 * binds it.
 *
 * Spec: specs/nvidia-gpu.md, sections 15 and 16.
 */

import { type Bytes, latin1 } from "../bytes";
import { base64Bytes, hexBytes } from "../encoding";
import { AttestError, need, refuse, refusalOf } from "../errors";
import { type JsonObject, type JsonValue, isObject, jsonValue } from "../json";
import { readPemBlocks } from "../pem";
import { type Certificate, parseCertificate } from "../x509";
import { type ParsedGpuReport, parseReport } from "./structure";

/** JSON of one device; NVML's buffers for report and chain have 13 KiB together, 18 KiB in base64. */
const MAX_DEVICE_BYTES = 64 * 1024;
/** NVIDIA's chains have five. */
const MAX_CHAIN_CERTIFICATES = 8;
const NONCE_BYTES = 32;

/** Permitted type of a member: text of a pattern, or a boolean. */
type Rules = Readonly<Record<string, RegExp | "boolean">>;

const WORD = /^[ -~]{1,64}$/;
const TEXT = /[^]/;
const EVIDENCE: Rules = { evidence: TEXT, certificate: TEXT };
const HINTS: Rules = { arch: WORD, nonce: WORD };
const NVML: Rules = {
  environment: /^(?:unavailable|simulation|production)$/,
  cc_mode: "boolean",
  dev_tools_mode: "boolean",
  multi_gpu_mode: /^(?:none|protected-pcie|nvle)$/,
};
const NVML_OPTIONAL: Rules = { ready: "boolean", driver_version: WORD };

/**
 * Statements of NVML on the machine's confidential-computing mode when the report was made. No part of them
 * is signed.
 */
export type GpuSettings = Readonly<Record<string, string | boolean | undefined>>;

/** One device as presented: untrusted. */
export interface ParsedGpuEvidence {
  readonly report: ParsedGpuReport;
  /** As presented, leaf first; undefined for a raw report, whose chain lies among the endorsements. */
  readonly chain?: readonly Certificate[];
  /** The stated architecture in lower case (`hopper`); a hint that must agree with the certificates. */
  readonly arch?: string | undefined;
  readonly settings?: GpuSettings | undefined;
  /** A hint that must agree with the report. */
  readonly statedNonce?: Bytes | undefined;
}

/**
 * Read the JSON object of one device: report and chain in base64, hints, and perhaps settings.
 *
 * @throws AttestError `json-invalid`, `gpu-device-malformed`, `base64-invalid`, `hex-invalid`, `gpu-report-malformed`,
 *   `gpu-opaque-unsupported`; or `certificate-malformed`, the chain cannot be read.
 */
export async function parseDevice(data: Bytes): Promise<ParsedGpuEvidence> {
  allowed(data.length <= MAX_DEVICE_BYTES, "device", String(MAX_DEVICE_BYTES));
  const device = jsonValue(data, "device");
  allowed(isObject(device), "device", "object");
  const { nvml } = device;
  const members = Object.fromEntries(Object.entries(device).filter(([name, member]) => isRead(name, member)));
  requireMembers(members, "device", EVIDENCE, HINTS);
  const { arch, nonce, evidence, certificate } = members as Record<string, string>; // as the rules say
  const decoded = (text: string | undefined, name: string): Bytes => base64Bytes(text!, `device.${name}`);
  // The report before its chain: what is malformed outranks what does not hold.
  const report = parseReport(decoded(evidence, "evidence"));
  if (nvml !== undefined) requireMembers(nvml, "device.nvml", NVML, NVML_OPTIONAL);
  return {
    report,
    arch: arch?.toLowerCase(),
    settings: nvml as GpuSettings | undefined,
    statedNonce: nonce === undefined ? undefined : hexBytes(nonce, "device.nonce", NONCE_BYTES),
    chain: await readChain(decoded(certificate, "certificate")),
  };
}

/** Members without a meaning are ignored, whatever they are, and so is null in the place of a hint. */
const isRead = (name: string, member: JsonValue): boolean =>
  Object.hasOwn(EVIDENCE, name) || (Object.hasOwn(HINTS, name) && member !== null);

/** Read the chain: one that cannot be read is a broken chain, not malformed evidence. */
async function readChain(pem: Bytes): Promise<Certificate[]> {
  const text = latin1(pem);
  const count = text.split("-----BEGIN ").length - 1;
  const chain = await refusalOf(() =>
    readPemBlocks(text)
      .map(({ label, content }) => (label === "CERTIFICATE" ? [parseCertificate(content)] : []))
      .flat(),
  );
  if (!(chain instanceof AttestError) && chain.length === count && count > 0 && count <= MAX_CHAIN_CERTIFICATES) {
    return chain;
  }
  return refuse("chain", "certificate-malformed", `1 to ${MAX_CHAIN_CERTIFICATES}`, count, { check: "nvidia.chain" });
}

/** Require an object with these members, as the rules say, and no other; an optional one may be absent. */
function requireMembers(value: JsonValue, path: string, required: Rules, optional: Rules): asserts value is JsonObject {
  allowed(isObject(value), path, "object");
  const rules = { ...optional, ...required };
  const unknown = Object.keys(value).find((name) => !Object.hasOwn(rules, name));
  allowed(unknown === undefined, path, `no member but ${Object.keys(rules).join(", ")}`, unknown?.slice(0, 40));
  for (const [name, rule] of Object.entries(rules)) {
    const member = value[name];
    const fits = rule === "boolean" ? typeof member === rule : typeof member === "string" && rule.test(member);
    allowed(fits || (member === undefined && name in optional), `${path}.${name}`, String(rule));
  }
}

function allowed(condition: unknown, field: string, expected: string, got = "another value"): asserts condition {
  need(condition, "malformed", "gpu-device-malformed", expected, got, { check: "nvidia.format", field });
}
