/**
 * Content of a binding: purpose, roles, nonce, key and every device, in one hash (DESIGN 7).
 *
 *     REPORT_DATA (64 bytes) = SHA-512( "attest binding v1\0" ‖ canonical CBOR of the binding )
 *     GPU nonce   (32 bytes) = SHA-256( "attest gpu nonce v1\0" ‖ canonical CBOR of (context, audience, nonce) )
 *
 * Behind a virtual TPM the 64 bytes are the user data of the runtime claims, and their first 48 the quote's extraData.
 */

import { type Bytes, concat, utf8 } from "./bytes";
import { cborBytes, cborValue, isMap } from "./cbor";
import { same } from "./procedure";
import { sha256, sha512 } from "./crypto";
import { isText } from "./envelope";
import { need } from "./errors";

const MAX_BINDING_BYTES = 16 * 1024;
const MAX_DEVICES = 32;
const MAX_TEXT = 512;

/** True of the hardware only once REPORT_DATA was compared. */
export interface Binding {
  readonly context: string;
  readonly role: string;
  readonly audience: string;
  readonly nonce: Bytes;
  readonly key: Bytes;
  readonly devices: readonly Bytes[];
  /** The canonical CBOR that is hashed. */
  readonly raw: Bytes;
}

/** Demands of a Relying Party on a binding; it knows all of them before the evidence arrives. */
export interface ExpectedBinding {
  readonly context: string;
  readonly role: string;
  readonly audience: string;
  readonly nonce: Bytes;
  readonly key?: Bytes | undefined;
}

/** Members of a binding, and the code of a member that differs. */
const DEMANDED = {
  context: "binding-context-mismatch",
  role: "binding-role-mismatch",
  audience: "binding-audience-mismatch",
  nonce: "nonce-mismatch",
  key: "channel-keys-mismatch",
} as const;

export function bindingReportData({ raw }: Binding): Promise<Bytes> {
  return sha512(concat(utf8("attest binding v1\0"), raw));
}

export function bindingGpuNonce({ context, audience, nonce }: ExpectedBinding): Promise<Bytes> {
  return sha256(concat(utf8("attest gpu nonce v1\0"), cborBytes([context, audience, nonce])));
}

/** Require that the binding was made for this purpose, this party and this challenge. */
export function requireBinding(expected: ExpectedBinding, binding: Binding): void {
  for (const [name, code] of Object.entries(DEMANDED)) {
    const field = name as keyof typeof DEMANDED;
    // Whoever asks may compare the key later; what else was forgotten is not met.
    if (expected[field] || field !== "key") same(code, `binding.${field}`, expected[field], binding[field]);
  }
}

const isBytes = (value: unknown, least: number, most = least): boolean =>
  value instanceof Uint8Array && value.length >= least && value.length <= most;
const isWord = (value: unknown): boolean => isText(value, MAX_TEXT);

/** Every member, and what it may be. */
const MEMBERS: Readonly<Record<string, (value: unknown) => boolean>> = {
  key: (value) => isBytes(value, 1, 4096),
  role: isWord,
  nonce: (value) => isBytes(value, 32),
  context: isWord,
  devices: (value) =>
    Array.isArray(value) && value.length <= MAX_DEVICES && value.every((digest) => isBytes(digest, 48)),
  audience: isWord,
  init_data: (value) => value === null || isBytes(value, 32, 64),
};

/** Read a binding; exactly these members, canonical CBOR: `binding-malformed` or `cbor-invalid`. */
export function parseBinding(raw: Bytes): Binding {
  const document = raw.length > MAX_BINDING_BYTES ? null : cborValue(raw, "binding");
  const names = Object.keys(MEMBERS);
  const members = isMap(document) && document.size === names.length ? document : new Map<string, never>();
  for (const [name, fits] of Object.entries(MEMBERS)) {
    need(fits(members.get(name)), "malformed", "binding-malformed", names, undefined, { field: `binding.${name}` });
  }
  return { ...(Object.fromEntries(members) as unknown as Binding), raw };
}
