/**
 * Evidence of one NVIDIA device: its report, the chain that came with it, and what NVML said of the machine's mode.
 *
 * A raw report travels alone, and its chain lies among the endorsements. The JSON object of NVIDIA's SDK carries both;
 * what else it says is a hint that nobody signed. The member `nvml` counts for something only where a CPU's evidence
 * binds it.
 *
 * Spec: specs/nvidia-gpu.md, sections 15 and 16.
 */

import { type Bytes, base64Bytes, hexBytes, latin1 } from "../bytes";
import { AttestError, refusal } from "../errors";
import { type JsonObject, type JsonValue, isObject, jsonValue } from "../json";
import { type Certificate, parseCertificate } from "../x509";
import { type ParsedGpuReport, parseReport } from "./structure";

/** JSON of one device; NVML's buffers for report and chain have 13 KiB together, 18 KiB in base64. */
const MAX_DEVICE_BYTES = 64 * 1024;
/** NVIDIA's chains have five. */
const MAX_CHAIN_CERTIFICATES = 8;
const CERTIFICATES = /-----BEGIN CERTIFICATE-----[ \t-\r]([A-Za-z0-9+/= \t-\r]*)-----END CERTIFICATE-----/g;
const NONCE_BYTES = 32;

/** What a member may be: text of a pattern, a word of a list, or a boolean. */
type Rules = Readonly<Record<string, RegExp | readonly string[] | "boolean">>;

const WORD = /^[ -~]{1,64}$/;
const TEXT = /[^]/;
export const REQUIRED: Rules = { evidence: TEXT, certificate: TEXT };
/** The versions are of older files; unsigned, and of no use beside the report, which states them itself. */
const HINTS: Rules = { arch: WORD, nonce: WORD, version: WORD, driver_version: WORD, vbios_version: WORD };
const UUID: Rules = { uuid: WORD };
const NVML: Rules = {
  environment: ["unavailable", "simulation", "production"],
  cc_mode: "boolean",
  dev_tools_mode: "boolean",
  multi_gpu_mode: ["none", "protected-pcie", "nvle"],
};
const NVML_OPTIONAL: Rules = { ready: "boolean", driver_version: WORD };

/**
 * What NVML said of the machine's confidential-computing mode when the report was made, member by member. Nothing of it
 * is signed.
 */
export type GpuSettings = Readonly<Record<string, string | boolean | undefined>>;

/** One device as presented: a stranger's word. */
export interface ParsedGpuEvidence {
  readonly report: ParsedGpuReport;
  /** As presented, leaf first; undefined for a raw report, whose chain lies among the endorsements. */
  readonly chain?: readonly Certificate[];
  /** The stated architecture in upper case (`HOPPER`); a hint that must agree with the certificates. */
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
export function parseDevice(data: Bytes): ParsedGpuEvidence {
  if (data.length > MAX_DEVICE_BYTES) throw malformed("device", `at most ${MAX_DEVICE_BYTES} bytes`, `${data.length} bytes`);
  const device = jsonValue(data, "NVIDIA device");
  requireMembers(device, "device", REQUIRED);
  const { nvml, arch, nonce } = device;
  requireClosed(device, "device", { ...REQUIRED, ...HINTS, ...UUID, nvml: TEXT });
  requireMembers(device, "device", {}, HINTS);
  const decoded = (name: string): Bytes => base64Bytes(device[name] as string, `device.${name}`);
  // The report before its chain: what is malformed outranks what does not hold.
  const report = parseReport(decoded("evidence"));
  const settings = nvml === undefined ? undefined : readSettings(nvml);
  requireMembers(device, "device", {}, UUID);
  return {
    report,
    arch: (arch as string | undefined)?.toUpperCase(),
    settings,
    statedNonce: nonce === undefined ? undefined : hexBytes(nonce as string, "device.nonce", NONCE_BYTES),
    chain: readChain(decoded("certificate")),
  };
}

/** Read the chain: one that cannot be read is a broken chain, not malformed evidence. */
function readChain(pem: Bytes): Certificate[] {
  const text = latin1(pem);
  const blocks = [...text.matchAll(CERTIFICATES)];
  const whole = blocks.length === text.split("-----BEGIN ").length - 1;
  if (!whole || !blocks.length || blocks.length > MAX_CHAIN_CERTIFICATES) {
    throw unreadable(`${blocks.length}`);
  }
  try {
    return blocks.map(([, lines = ""]) => parseCertificate(base64Bytes(lines.replace(/[ \t-\r]/g, ""), "PEM CERTIFICATE")));
  } catch (error) {
    if (error instanceof AttestError) throw unreadable(error.message);
    throw error;
  }
}

function unreadable(got: string): AttestError {
  const facts = { check: "nvidia.chain", field: "device.certificate", clause: "nvidia-gpu.md 6.1" };
  return refusal("chain", "certificate-malformed", `1 to ${MAX_CHAIN_CERTIFICATES} certificates in PEM and no other block`, got, facts);
}

function readSettings(nvml: JsonValue): GpuSettings {
  const known = { ...NVML, ...NVML_OPTIONAL };
  requireMembers(nvml, "device.nvml", NVML, NVML_OPTIONAL);
  requireClosed(nvml, "device.nvml", known);
  return Object.fromEntries(Object.keys(known).map((name) => [name, nvml[name] as string | boolean | undefined]));
}

// -- members

/** Require an object whose members are as the rules say; an optional one may be absent. */
export function requireMembers(
  value: JsonValue | undefined,
  path: string,
  required: Rules,
  optional: Rules = {},
): asserts value is JsonObject {
  if (!isObject(value)) throw malformed(path, "object", "another value");
  for (const [name, rule] of Object.entries({ ...required, ...optional })) {
    const member = value[name];
    if (member === undefined && name in optional) continue;
    const allowed = typeof member === "string" && (rule instanceof RegExp ? rule.test(member) : rule.includes(member));
    if (rule === "boolean" ? typeof member !== rule : !allowed) {
      throw malformed(`${path}.${name}`, String(rule), member === undefined ? "none" : "another value");
    }
  }
}

function requireClosed(members: JsonObject, path: string, known: Rules): void {
  const unknown = Object.keys(members).find((name) => !Object.hasOwn(known, name));
  if (unknown !== undefined) throw malformed(path, `no member but ${Object.keys(known).join(", ")}`, unknown.slice(0, 40));
}

export function malformed(field: string, expected: string, got: string): AttestError {
  return refusal("malformed", "gpu-device-malformed", expected, got, { check: "nvidia.format", field, clause: "nvidia-gpu.md 16" });
}
