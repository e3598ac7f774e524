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
const ENVIRONMENTS = ["unavailable", "simulation", "production"];
const MULTI_GPU_MODES = ["none", "protected-pcie", "nvle"];
/** Members of older files; unsigned, and of no use beside the report, which states the versions itself. */
const HINTS = ["version", "driver_version", "vbios_version"];
const MEMBERS = ["arch", "nonce", "uuid", "nvml", "evidence", "certificate", ...HINTS];
const NVML_MEMBERS = ["environment", "cc_mode", "dev_tools_mode", "multi_gpu_mode", "ready", "driver_version"];

/** What NVML said of the machine's confidential-computing mode when the report was made. Nothing of it is signed. */
export interface GpuSettings {
  readonly environment: string;
  readonly ccMode: boolean;
  readonly devToolsMode: boolean;
  readonly multiGpuMode: string;
  readonly ready: boolean | undefined;
  readonly driverVersion: string | undefined;
}

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
  if (!isObject(device)) throw malformed("device", "object", "another value");
  for (const name of ["evidence", "certificate"]) words(device, name, "device");
  requireClosed(device, MEMBERS, "device");
  for (const name of HINTS) word(device, name, "device");
  const arch = word(device, "arch", "device")?.toUpperCase();
  const nonce = word(device, "nonce", "device");
  // The report before its chain: what is malformed outranks what does not hold.
  const report = parseReport(base64Bytes(words(device, "evidence", "device"), "device.evidence"));
  const settings = "nvml" in device ? readSettings(device["nvml"]) : undefined;
  word(device, "uuid", "device");
  const statedNonce = nonce === undefined ? undefined : hexBytes(nonce, "device.nonce", NONCE_BYTES);
  const chain = readChain(base64Bytes(words(device, "certificate", "device"), "device.certificate"));
  return { report, chain, arch, settings, statedNonce };
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

function readSettings(value: JsonValue | undefined): GpuSettings {
  const path = "device.nvml";
  if (!isObject(value)) throw malformed(path, "object", "another value");
  requireClosed(value, NVML_MEMBERS, path);
  return {
    environment: choice(value, "environment", path, ENVIRONMENTS),
    ccMode: flag(value, "cc_mode", path),
    devToolsMode: flag(value, "dev_tools_mode", path),
    multiGpuMode: choice(value, "multi_gpu_mode", path, MULTI_GPU_MODES),
    ready: "ready" in value ? flag(value, "ready", path) : undefined,
    driverVersion: word(value, "driver_version", path),
  };
}

// -- members

function requireClosed(members: JsonObject, known: readonly string[], path: string): void {
  const unknown = Object.keys(members).find((name) => !known.includes(name));
  if (unknown !== undefined) throw malformed(path, `no member but ${known.join(", ")}`, unknown.slice(0, 40));
}

export function words(members: JsonObject, name: string, path: string): string {
  const value = members[name];
  if (typeof value === "string" && value) return value;
  throw malformed(`${path}.${name}`, "text", value === undefined ? "none" : "another value");
}

/** A short text of printable ASCII, or undefined when there is no such member. */
function word(members: JsonObject, name: string, path: string): string | undefined {
  if (!(name in members)) return undefined;
  const text = words(members, name, path);
  if (/^[ -~]{1,64}$/.test(text)) return text;
  throw malformed(`${path}.${name}`, "1 to 64 printable characters", `${text.length} characters`);
}

function choice(members: JsonObject, name: string, path: string, choices: readonly string[]): string {
  const text = words(members, name, path);
  if (choices.includes(text)) return text;
  throw malformed(`${path}.${name}`, `one of ${choices.join(", ")}`, text.slice(0, 40));
}

function flag(members: JsonObject, name: string, path: string): boolean {
  const value = members[name];
  if (typeof value === "boolean") return value;
  throw malformed(`${path}.${name}`, "boolean", value === undefined ? "none" : "another value");
}

export function malformed(field: string, expected: string, got: string): AttestError {
  return refusal("malformed", "gpu-device-malformed", expected, got, { check: "nvidia.format", field, clause: "nvidia-gpu.md 16" });
}
