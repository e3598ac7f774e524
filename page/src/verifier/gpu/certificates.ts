/**
 * What NVIDIA writes into the certificates of a device: the leaf's firmware id, and who the device is.
 *
 * L5 is the attestation key, which the device makes for the firmware that it booted. L4 names the device itself: the
 * serial number in its subject is a type byte and the id (PDI) with which GPUs and switches name each other.
 *
 * Spec: specs/nvidia-gpu.md, sections 6 and 7; TCG DICE attestation architecture, section 6.1.
 */

import { type Bytes, hex, latin1, utf8Text } from "../bytes";
import { usableKey } from "../crypto";
import { DerError, DerReader, TAG, all, bits, defect, integer, oid, onlyElement } from "../der";
import { type AttestError, refusal } from "../errors";
import { type Certificate, extensionOf } from "../x509";

export type DeviceKind = "nvidia-gpu" | "nvidia-switch";
export type Architecture = "hopper" | "blackwell" | "ls10";

const COMPOSITE_DEVICE_ID = "2.23.133.5.4.1";
const TCB_INFO = "2.23.133.5.4.1.1";
const SHA384 = "2.16.840.1.101.3.4.2.2";
const FWID_BYTES = 48;
const FWIDS = 0x86;
const BASIC_CONSTRAINTS = "2.5.29.19";
const KEY_USAGE = "2.5.29.15";
const DIGITAL_SIGNATURE = 0x80;
const KEY_CERT_SIGN = 0x04;
const SERIAL_NUMBER = "2.5.4.5";

/** L5: the certificate of the key that signs reports; not trusted until its chain is verified. */
export interface GpuLeaf {
  readonly certificate: Certificate;
  /** SHA-384 of the first mutable firmware, in hex. */
  readonly fwid: string;
  /** The deviceID inside the extension, which must be the key of L4; undefined where it has none (Blackwell). */
  readonly deviceKey: Bytes | undefined;
}

/** What kind of device an L4 is of. */
export interface DeviceModel {
  readonly kind: DeviceKind;
  readonly architecture: Architecture;
  /** As RIMs name it (`GH100`, `LS10`). */
  readonly product: string;
}

// -- the leaf

function isFirmwareId({ oid: identifier }: { readonly oid: string }): boolean {
  return identifier === COMPOSITE_DEVICE_ID || identifier === TCB_INFO;
}

/** Whether a certificate bears a firmware id, so whether it claims to be the L5 of a device. */
export function isLeaf(certificate: Certificate): boolean {
  return certificate.extensions.some(isFirmwareId);
}

/** A leaf less its firmware id, which `readLeaf` knows, for rules that refuse unknown critical extensions. */
export function withoutFirmwareId(certificate: Certificate): Certificate {
  return { ...certificate, extensions: certificate.extensions.filter((extension) => !isFirmwareId(extension)) };
}

interface FirmwareId {
  readonly algorithm: string;
  readonly digest: Bytes;
  readonly deviceKey?: Bytes;
}

/**
 * Decode the firmware id of an L5, and require that it is a leaf: it signs data and issues nothing.
 *
 * @throws AttestError `gpu-leaf-malformed`: none or both of the two extensions, DER that is not theirs, another digest
 *   than SHA-384, a certificate that may issue others or may not sign; `public-key-invalid`: no P-384 key.
 */
export async function readLeaf(certificate: Certificate): Promise<GpuLeaf> {
  const [found, ...more] = certificate.extensions.filter(isFirmwareId);
  if (!found || more.length) throw malformed(certificate, "one firmware id", found ? "both" : "none");
  const read = found.oid === COMPOSITE_DEVICE_ID ? compositeDeviceId : tcbInfo;
  const { algorithm, digest, deviceKey } = decoding(certificate, () => read(found.value));
  // An L5 has no basicConstraints at all.
  const first = decoding(certificate, () => keyUsage(certificate));
  if (extensionOf(certificate, BASIC_CONSTRAINTS) || !(first & DIGITAL_SIGNATURE) || first & KEY_CERT_SIGN) {
    throw malformed(certificate, "keyUsage digitalSignature without keyCertSign, no basicConstraints", `keyUsage ${first}`);
  }
  await requireP384(certificate);
  if (algorithm !== SHA384 || digest.length !== FWID_BYTES) {
    throw malformed(certificate, `${FWID_BYTES} bytes of SHA-384`, `${digest.length} bytes of algorithm ${algorithm}`);
  }
  return { certificate, fwid: hex(digest), deviceKey };
}

function readFwid(reader: DerReader): FirmwareId {
  const inside = reader.sequence();
  const fwid = { algorithm: oid(inside.next(TAG.oid)), digest: inside.next(TAG.octetString).body };
  inside.end();
  return fwid;
}

/** Version, the deviceID key, which is L4's, and the firmware id of what runs above it. */
function compositeDeviceId(der: Bytes): FirmwareId {
  const inside = new DerReader(onlyElement(der, TAG.sequence).body);
  if (integer(inside.next(TAG.integer)) !== 1n) defect("version");
  const deviceKey = inside.next().whole;
  const fwid = readFwid(inside);
  inside.end();
  return { ...fwid, deviceKey };
}

/**
 * Three texts, three numbers, the firmware ids, flags and two more, each optional. The first id counts: the second is
 * that of a layer which is not there, all zero.
 */
function tcbInfo(der: Bytes): FirmwareId {
  const inside = new DerReader(onlyElement(der, TAG.sequence).body);
  let fwid: FirmwareId | undefined;
  for (let tag = 0x80; tag <= 0x89; tag++) {
    const element = inside.maybe(tag === FWIDS ? FWIDS | 0x20 : tag);
    if (!element) continue;
    if (tag <= 0x82) utf8Text(element.body) ?? defect("text");
    else if (tag <= 0x85) integer(element);
    else if (tag === FWIDS) [fwid] = all(element.body, readFwid);
    else if (tag === 0x87) bits(element);
  }
  inside.end();
  return fwid ?? defect("none");
}

/** The first byte of keyUsage; 0 without any. */
function keyUsage(certificate: Certificate): number {
  const usage = extensionOf(certificate, KEY_USAGE);
  return (usage && bits(onlyElement(usage.value, TAG.bitString)).bytes[0]) ?? 0;
}

function decoding<T>(certificate: Certificate, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (error instanceof DerError) throw malformed(certificate, "DER of TCG DICE", error.message);
    throw error;
  }
}

/** Require that a certificate's key is one of P-384: NVIDIA has no other. Refuses with `public-key-invalid`. */
export async function requireP384({ name, spki }: Certificate): Promise<void> {
  const kind = await usableKey(spki);
  if (kind !== "P-384") throw refusal("chain", "public-key-invalid", "P-384", kind, { field: name });
}

// -- the device

/**
 * Read who the device is, whatever firmware it runs: type byte and PDI, 18 lower-case hex digits. They are the subject
 * serialNumber of L4, which is its certificate serial too.
 *
 * @throws AttestError `gpu-identity-malformed`.
 */
export function readIdentity(certificate: Certificate): string {
  const values = serialNumbers(certificate.subject);
  const [only = ""] = values;
  if (values.length === 1 && /^[0-9A-Fa-f]{18}$/.test(only) && BigInt(`0x${only}`) === certificate.serial) {
    return only.toLowerCase();
  }
  const expected = `9 bytes in hex, 0x${certificate.serial.toString(16)}`;
  throw refusal("chain", "gpu-identity-malformed", expected, values.join(", ") || "none", { field: "subject serialNumber" });
}

function serialNumbers(name: Bytes): string[] {
  const found: string[] = [];
  // The name was read before, for its CN.
  for (const { body } of all(onlyElement(name, TAG.sequence).body, (reader) => reader.next(TAG.set))) {
    for (const attribute of all(body, (reader) => reader.sequence())) {
      const identifier = oid(attribute.next(TAG.oid));
      if (identifier === SERIAL_NUMBER) found.push(latin1(attribute.next().body));
    }
  }
  return found;
}

/** Type byte and start of the CN of L4; both have to agree. */
const MODELS: readonly (readonly [typeByte: string, prefix: string, kind: DeviceKind, architecture: Architecture])[] = [
  ["41", "GH1", "nvidia-gpu", "hopper"],
  ["41", "GB1", "nvidia-gpu", "blackwell"],
  ["41", "GB2", "nvidia-gpu", "blackwell"],
  ["50", "LS_10", "nvidia-switch", "ls10"],
];

/** Say what kind of device an L4 is of. Refuses with `gpu-device-unsupported`. */
export function readModel(certificate: Certificate, identity: string): DeviceModel {
  const name = certificate.commonName ?? "";
  const typeByte = identity.slice(0, 2);
  for (const [type, prefix, kind, architecture] of MODELS) {
    if (typeByte !== type || !name.startsWith(prefix)) continue;
    return { kind, architecture, product: (name.split(" ")[0] ?? "").replaceAll("_", "") };
  }
  const known = MODELS.map(([type, prefix]) => `0x${type} ${prefix}`).join(", ");
  throw refusal("unsupported", "gpu-device-unsupported", known, `0x${typeByte} ${name}`);
}

function malformed({ name }: Certificate, expected: string, got: string): AttestError {
  return refusal("chain", "gpu-leaf-malformed", expected, got, { field: name });
}
