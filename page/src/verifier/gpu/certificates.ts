/**
 * What NVIDIA writes into the certificates of a device: the leaf's firmware id, and who the device is.
 *
 * L5 is the attestation key, which the device makes for the firmware that it booted. L4 names the device itself: the
 * serial number in its subject is a type byte and the id (PDI) with which GPUs and switches name each other.
 *
 * Spec: specs/nvidia-gpu.md, sections 6 and 7; TCG DICE attestation architecture, section 6.1.
 */

import { type Bytes, hex, latin1, utf8Text } from "../bytes";
import { keyKind } from "../crypto";
import { DerError, DerReader, TAG, all, bits, defect, integer, oid, onlyElement } from "../der";
import { AttestError, fail } from "../errors";
import { type Certificate, extensionOf } from "../x509";

export type DeviceKind = "nvidia-gpu" | "nvidia-switch";
export type Architecture = "hopper" | "blackwell" | "ls10";

const COMPOSITE_DEVICE_ID = "2.23.133.5.4.1";
const TCB_INFO = "2.23.133.5.4.1.1";
const SHA384 = "2.16.840.1.101.3.4.2.2";
const FWID_BYTES = 48;
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

interface Fwid {
  readonly algorithm: string;
  readonly digest: Bytes;
}

/**
 * Decode the firmware id of an L5, and require that it is a leaf: it signs data and issues nothing.
 *
 * @throws AttestError `gpu-leaf-malformed`: none or both of the two extensions, DER that is not theirs, another digest
 *   than SHA-384, a certificate that may issue others or may not sign; `public-key-invalid`: no P-384 key.
 */
export function readLeaf(certificate: Certificate): GpuLeaf {
  const [found, ...more] = certificate.extensions.filter(isFirmwareId);
  if (!found || more.length) {
    const expected = `one of the extensions ${COMPOSITE_DEVICE_ID} and ${TCB_INFO}`;
    throw malformed(certificate, "firmware id", expected, found ? "both" : "none");
  }
  const composite = found.oid === COMPOSITE_DEVICE_ID;
  const wanted = `DER of a ${composite ? "CompositeDeviceID" : "DiceTcbInfo"}`;
  const read = composite ? compositeDeviceId : tcbInfo;
  const { fwid, deviceKey } = decoding(certificate, "firmware id", wanted, () => read(found.value));
  requireSignsData(certificate);
  requireP384(certificate);
  if (fwid.algorithm !== SHA384 || fwid.digest.length !== FWID_BYTES) {
    const got = `${fwid.digest.length} bytes of algorithm ${fwid.algorithm}`;
    throw malformed(certificate, "firmware id", `${FWID_BYTES} bytes of SHA-384`, got);
  }
  return { certificate, fwid: hex(fwid.digest), deviceKey };
}

interface FirmwareId {
  readonly fwid: Fwid;
  readonly deviceKey?: Bytes;
}

function readFwid(reader: DerReader): Fwid {
  const inside = reader.sequence();
  const fwid = { algorithm: oid(inside.next(TAG.oid)), digest: inside.next(TAG.octetString).body };
  inside.end();
  return fwid;
}

/** Version, the deviceID key, which is L4's, and the firmware id of what runs above it. */
function compositeDeviceId(der: Bytes): FirmwareId {
  const inside = new DerReader(onlyElement(der, TAG.sequence).body);
  if (integer(inside.next(TAG.integer)) !== 1n) defect("another version than 1");
  const deviceKey = inside.next().whole;
  const fwid = readFwid(inside);
  inside.end();
  return { fwid, deviceKey };
}

/** Take the first of the firmware ids: the second is that of a layer which is not there, all zero. */
function tcbInfo(der: Bytes): FirmwareId {
  const inside = new DerReader(onlyElement(der, TAG.sequence).body);
  for (const tag of [0x80, 0x81, 0x82]) {
    const words = inside.maybe(tag);
    if (words && utf8Text(words.body) === undefined) defect("a text that is none");
  }
  for (const tag of [0x83, 0x84, 0x85]) {
    const number = inside.maybe(tag);
    if (number) integer(number);
  }
  const [fwid] = all(inside.maybe(0xa6)?.body ?? new Uint8Array(), readFwid);
  const flags = inside.maybe(0x87);
  if (flags) bits(flags);
  inside.maybe(0x88);
  inside.maybe(0x89);
  inside.end();
  return { fwid: fwid ?? defect("no firmware id") };
}

/** Require digitalSignature without keyCertSign, and no basicConstraints: an L5 has none at all. */
function requireSignsData(certificate: Certificate): void {
  if (extensionOf(certificate, BASIC_CONSTRAINTS)) {
    throw malformed(certificate, "basicConstraints", "no such extension", "one");
  }
  const usage = keyUsage(certificate);
  const first = usage[0] ?? 0;
  if (!(first & DIGITAL_SIGNATURE) || first & KEY_CERT_SIGN) {
    throw malformed(certificate, "keyUsage", "digitalSignature without keyCertSign", hex(usage) || "none");
  }
}

function keyUsage(certificate: Certificate): Bytes {
  const usage = extensionOf(certificate, KEY_USAGE);
  const read = (): Bytes => (usage ? bits(onlyElement(usage.value, TAG.bitString)).bytes : new Uint8Array());
  return decoding(certificate, "keyUsage", "a BIT STRING", read);
}

function decoding<T>(certificate: Certificate, what: string, expected: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (error instanceof DerError) throw malformed(certificate, what, expected, error.message);
    throw error;
  }
}

/** Require that a certificate's key is one of P-384: NVIDIA has no other. Refuses with `public-key-invalid`. */
export function requireP384(certificate: Certificate): void {
  const kind = keyKind(certificate.spki);
  if (kind === "P-384") return;
  fail("chain", "public-key-invalid", `the public key of ${certificate.name} is not one of P-384`, {
    expected: "ECDSA P-384",
    got: kind,
    clause: "nvidia-gpu.md 6.1",
  });
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
  return fail("chain", "gpu-identity-malformed", `${certificate.name} does not name a device`, {
    field: "subject serialNumber",
    expected: `9 bytes in hex that are the certificate's serial number, 0x${certificate.serial.toString(16)}`,
    got: values.join(", ") || "none",
    clause: "nvidia-gpu.md 7",
  });
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
  return fail("unsupported", "gpu-device-unsupported", `${certificate.name} is no device that is known here`, {
    expected: "0x41 with GH1…, GB1… or GB2…, or 0x50 with LS_10",
    got: `0x${typeByte} with ${name || "a name without one CN"}`,
    clause: "nvidia-gpu.md 4.1, 6.1",
  });
}

function malformed(certificate: Certificate, what: string, expected: string, got: string): AttestError {
  const clause = "TCG DICE attestation architecture; nvidia-gpu.md 7";
  const message = `${what} of ${certificate.name}: expected ${expected}, got ${got}`;
  return new AttestError("chain", "gpu-leaf-malformed", message, { field: what, expected, got, clause });
}
