/**
 * What a proof commits to: purpose, roles, nonce, key and every device, in one hash (DESIGN 7).
 *
 *     REPORT_DATA (64 bytes) = SHA-512( "attest binding v1\0" ‖ canonical CBOR of the binding )
 *     GPU nonce   (32 bytes) = SHA-256( "attest gpu nonce v1\0" ‖ canonical CBOR of (context, audience, nonce) )
 *
 * Behind a virtual TPM the 64 bytes are the user data of the runtime claims, and their first 48 the quote's extraData.
 */

import { type Bytes, concat, equal, hex, utf8 } from "./bytes";
import { type CborValue, cborBytes, cborValue, isMap } from "./cbor";
import { sha256, sha512 } from "./crypto";
import { characters, isPrintable } from "./envelope";
import { fail } from "./errors";

const NONCE_BYTES = 32;
export const EXTRA_DATA_BYTES = 48;
const [MAX_BINDING_BYTES, MAX_DEVICES, MAX_TEXT, DIGEST_BYTES] = [16 * 1024, 32, 512, 48];
const CLAUSE = "DESIGN 7";
const NAMES = ["audience", "context", "devices", "init_data", "key", "nonce", "role"];

/** True of the hardware only once REPORT_DATA was compared. */
export interface Binding {
  readonly context: string;
  readonly role: string;
  readonly audience: string;
  readonly nonce: Bytes;
  readonly key: Bytes;
  readonly devices: readonly Bytes[];
  readonly initData: Bytes | null;
  /** The canonical CBOR that is hashed. */
  readonly raw: Bytes;
}

/** What a Relying Party demands of a binding; it knows all of this before the evidence arrives. */
export interface ExpectedBinding {
  readonly context: string;
  readonly role: string;
  readonly audience: string;
  readonly nonce: Bytes;
  readonly key?: Bytes | undefined;
}

export function bindingReportData(binding: Binding): Promise<Bytes> {
  return sha512(concat(utf8("attest binding v1\0"), binding.raw));
}

export function bindingGpuNonce({ context, audience, nonce }: ExpectedBinding): Promise<Bytes> {
  return sha256(concat(utf8("attest gpu nonce v1\0"), cborBytes([context, audience, nonce])));
}

/** Require that the binding was made for this purpose, this party and this challenge. */
export function requireBinding(expected: ExpectedBinding, binding: Binding): void {
  for (const field of ["context", "role", "audience"] as const) {
    const [wanted, got] = [expected[field], binding[field]];
    if (wanted !== got) {
      const facts = { field: `binding.${field}`, expected: wanted, got, clause: CLAUSE };
      fail("binding", `binding-${field}-mismatch`, "", facts);
    }
  }
  if (!equal(expected.nonce, binding.nonce)) {
    const facts = { field: "binding.nonce", expected: hex(expected.nonce), got: hex(binding.nonce), clause: CLAUSE };
    fail("binding", "nonce-mismatch", "", facts);
  }
  if (expected.key && !equal(expected.key, binding.key)) {
    const facts = { field: "binding.key", expected: hex(expected.key), got: hex(binding.key), clause: CLAUSE };
    fail("binding", "channel-keys-mismatch", "", facts);
  }
}

function malformed(problem: string): never {
  return fail("malformed", "binding-malformed", `binding: ${problem}`, { field: "binding", clause: CLAUSE });
}

/** Read a binding; exactly these members, canonical CBOR: `binding-malformed` or `cbor-invalid`. */
export function parseBinding(raw: Bytes): Binding {
  if (raw.length > MAX_BINDING_BYTES) malformed(`${raw.length} bytes, more than ${MAX_BINDING_BYTES}`);
  const document = cborValue(raw, "binding");
  if (!isMap(document)) return malformed("expected a map");
  if ([...document.keys()].sort().join() !== NAMES.join()) malformed(`expected exactly ${NAMES.join(", ")}`);
  const text = (name: string): string => {
    const value = document.get(name);
    if (typeof value === "string" && value && characters(value) <= MAX_TEXT && isPrintable(value)) return value;
    return malformed(`${name}: expected 1 to ${MAX_TEXT} printable characters`);
  };
  const devices = document.get("devices");
  if (!Array.isArray(devices) || devices.length > MAX_DEVICES) malformed(`devices: expected at most ${MAX_DEVICES} digests`);
  const initData = document.get("init_data") ?? null;
  return {
    context: text("context"),
    role: text("role"),
    audience: text("audience"),
    nonce: sized(document.get("nonce"), "nonce", NONCE_BYTES),
    key: sized(document.get("key"), "key", 1, 4096),
    devices: (devices as CborValue[]).map((device) => sized(device, "devices", DIGEST_BYTES)),
    initData: initData === null ? null : sized(initData, "init_data", 32, 64),
    raw,
  };
}

function sized(value: CborValue | undefined, name: string, least: number, most = least): Bytes {
  if (value instanceof Uint8Array && value.length >= least && value.length <= most) return value as Bytes;
  return malformed(`${name}: expected a byte string of ${least} to ${most} bytes`);
}
