/**
 * NVIDIA's data in the certificates of a device: the leaf's firmware id, and the device's identity.
 *
 * L5 is the attestation key, which the device makes for the firmware that it booted. L4 names the device itself: the
 * serial number in its subject is a type byte and the id (PDI) with which GPUs and switches name each other.
 *
 * Spec: specs/nvidia-gpu.md, sections 6 and 7; TCG DICE attestation architecture, section 6.1.
 */

import { type Bytes, hex, utf8Text } from "../bytes";
import { hasUsage } from "../chain";
import { usableKey } from "../crypto";
import { type DerReader, TAG, all, bits, defect, integer, oid, onlySequence, unlessDefect } from "../der";
import type { Shown } from "../shown";
import { need, refuse } from "../errors";
import { type Certificate, commonNameOf, extensionOf } from "../x509";

export type DeviceKind = "nvidia-gpu" | "nvidia-switch";
export type Architecture = "hopper" | "blackwell" | "ls10";

const COMPOSITE_DEVICE_ID = "2.23.133.5.4.1";
const TCB_INFO = "2.23.133.5.4.1.1";
const SHA384 = "2.16.840.1.101.3.4.2.2";
const FWID_BYTES = 48;
const BASIC_CONSTRAINTS = "2.5.29.19";
const DIGITAL_SIGNATURE = 0;
const KEY_CERT_SIGN = 5;
const SERIAL_NUMBER = "2.5.4.5";

/** L5: the certificate of the key that signs reports; not trusted until its chain is verified. */
export interface GpuLeaf {
  readonly certificate: Certificate;
  /** SHA-384 of the first mutable firmware, in hex. */
  readonly fwid: string;
  /** The deviceID inside the extension, which must be the key of L4; undefined where it has none (Blackwell). */
  readonly deviceKey: Bytes | undefined;
}

/** Kind of device of an L4. */
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

/** True if a certificate bears a firmware id, so whether it claims to be the L5 of a device. */
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
  const wrong = (got: Shown): never =>
    refuse("chain", "gpu-leaf-malformed", "a firmware id", got, { field: certificate.name });
  const { algorithm, digest, deviceKey } = unlessDefect(() => firmwareId(certificate), wrong);
  await requireP384(certificate);
  if (algorithm !== SHA384 || digest.length !== FWID_BYTES) wrong(`${algorithm} ${hex(digest)}`);
  return { certificate, fwid: hex(digest), deviceKey };
}

function firmwareId(certificate: Certificate): FirmwareId {
  const found = certificate.extensions.filter(isFirmwareId);
  if (found.length !== 1) defect("ids");
  const inside = onlySequence(found[0]!.value);
  const id = found[0]!.oid === TCB_INFO ? tcbInfo(inside) : compositeDeviceId(inside);
  inside.end();
  // An L5 has no basicConstraints at all.
  const mayIssue = extensionOf(certificate, BASIC_CONSTRAINTS) !== undefined || hasUsage(certificate, KEY_CERT_SIGN);
  return mayIssue || !hasUsage(certificate, DIGITAL_SIGNATURE) ? defect("keyUsage") : id;
}

function readFwid(reader: DerReader): FirmwareId {
  const inside = reader.sequence();
  const fwid = { algorithm: oid(inside.next(TAG.oid)), digest: inside.next(TAG.octetString).body };
  inside.end();
  return fwid;
}

/** Version, the deviceID key, which is L4's, and the firmware id of what runs above it. */
function compositeDeviceId(inside: DerReader): FirmwareId {
  if (integer(inside.next(TAG.integer)) !== 1n) defect("version");
  return { deviceKey: inside.next().whole, ...readFwid(inside) };
}

/**
 * Three texts, three numbers, the firmware ids, flags and two more, each optional. The first id counts: the second is
 * that of a layer which is not there, all zero.
 */
function tcbInfo(inside: DerReader): FirmwareId {
  const text = ({ body }: { readonly body: Bytes }): unknown => utf8Text(body) ?? defect("text");
  let fwid: FirmwareId | undefined;
  const members = [text, text, text, integer, integer, integer, undefined, bits, Boolean, Boolean];
  members.forEach((read, member) => {
    const element = inside.maybe(read ? 0x80 + member : 0xa6);
    if (element && read) read(element);
    else if (element) [fwid] = all(element.body, readFwid);
  });
  return fwid ?? defect("none");
}

/** Require that a certificate's key is one of P-384: NVIDIA has no other. Refuses with `public-key-invalid`. */
export async function requireP384({ name, spki }: Certificate, code = "public-key-invalid"): Promise<void> {
  const kind = await usableKey(spki);
  need(kind === "P-384", "chain", code, "P-384", kind, { field: name });
}

// -- the device

/**
 * Read who the device is, whatever firmware it runs: type byte and PDI, 18 lower-case hex digits. They are the subject
 * serialNumber of L4, which is its certificate serial too.
 *
 * @throws AttestError `gpu-identity-malformed`.
 */
export function readIdentity({ subject, serial }: Certificate): string {
  const text = commonNameOf(subject, SERIAL_NUMBER) ?? "";
  const isSerial = /^[0-9A-Fa-f]{18}$/.test(text) && BigInt(`0x${text}`) === serial;
  need(isSerial, "chain", "gpu-identity-malformed", serial.toString(16), text);
  return text.toLowerCase();
}

/** Type byte and start of the CN of L4; both have to agree. */
const MODELS: readonly (readonly [typeByte: string, prefix: string, kind: DeviceKind, architecture: Architecture])[] = [
  ["41", "GH1", "nvidia-gpu", "hopper"],
  ["41", "GB1", "nvidia-gpu", "blackwell"],
  ["41", "GB2", "nvidia-gpu", "blackwell"],
  ["50", "LS_10", "nvidia-switch", "ls10"],
];

/** Say what kind of device an L4 is of. Refuses with `gpu-device-unsupported`. */
export function readModel({ commonName = "" }: Certificate, identity: string): DeviceModel {
  const found = MODELS.find(([type, prefix]) => identity.startsWith(type) && commonName.startsWith(prefix));
  if (!found) return refuse("unsupported", "gpu-device-unsupported", MODELS.join(" "), `${identity} ${commonName}`);
  const [, , kind, architecture] = found;
  return { kind, architecture, product: commonName.split(" ")[0]!.replaceAll("_", "") };
}
