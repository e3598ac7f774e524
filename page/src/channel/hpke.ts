/**
 * HPKE in base mode, the sender's side (RFC 9180), by WebCrypto.
 *
 *     0x647a   X-Wing: SHA3-256( ss_M ‖ ss_X ‖ ct_X ‖ pk_X ‖ label ); enc ct_M ‖ ct_X, public pk_M ‖ pk_X
 *     0x0020   DHKEM(X25519, HKDF-SHA256); enc 32, public 32
 *
 * Always HKDF-SHA256 and AES-256-GCM. No output of the key derivation here is longer than one hash.
 */

import { type Bytes, concat, isZero, unhex, utf8 } from "../verifier/bytes";
import { fail, refusal, refuse } from "../verifier/errors";
import { sha3 } from "./sha3";

export const KEM_HYBRID = 0x647a;
export const KEM_X25519 = 0x0020;
export const KDF_SHA256 = 1;
export const AES_256_GCM = 2;
export const [TAG_BYTES, KEY_BYTES] = [16, 32];
export const PUBLIC_BYTES: Readonly<Record<number, number>> = { [KEM_HYBRID]: 1216, [KEM_X25519]: 32 };

const [CURVE_BYTES, NONCE_BYTES] = [32, 12];
const LATTICE = { name: "ML-KEM-768" };
const CURVE = { name: "X25519" };
const XWING_LABEL = unhex("5c2e2f2f5e5c");
const CLAUSE = "RFC 9180";

export const be2 = (number: number): Bytes => Uint8Array.of(number >> 8, number & 0xff);

// -- key derivation

async function mac(key: Bytes, data: Bytes): Promise<Bytes> {
  const imported = await crypto.subtle.importKey("raw", key, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", imported, data));
}

/** HKDF-Extract; an empty salt is 32 zero bytes. */
export function extract(salt: Bytes, material: Bytes): Promise<Bytes> {
  return mac(salt.length ? salt : new Uint8Array(32), material);
}

/** HKDF-Expand, of at most 32 bytes. */
export async function expand(secret: Bytes, info: Uint8Array, length: number): Promise<Bytes> {
  return (await mac(secret, concat(info, Uint8Array.of(1)))).slice(0, length);
}

const named = (suite: Bytes, label: string): Bytes => concat(utf8("HPKE-v1"), suite, utf8(label));

function labeledExtract(suite: Bytes, salt: Bytes, label: string, material: Uint8Array): Promise<Bytes> {
  return extract(salt, concat(named(suite, label), material));
}

function labeledExpand(suite: Bytes, secret: Bytes, label: string, info: Uint8Array, length: number): Promise<Bytes> {
  return expand(secret, concat(be2(length), named(suite, label), info), length);
}

// -- KEMs

/** A browser that may lack ML-KEM; its types do not know it yet. */
interface Lattice {
  importKey(format: "raw-public", key: Bytes, algorithm: typeof LATTICE, extractable: boolean, usages: readonly ["encapsulateBits"]): Promise<CryptoKey>;
  encapsulateBits?(algorithm: typeof LATTICE, key: CryptoKey): Promise<{ readonly sharedKey: ArrayBuffer; readonly ciphertext: ArrayBuffer }>;
}

const lattice = (): Lattice => crypto.subtle as unknown as Lattice;

/** Return the KEMs that this browser has, the preferred one first. */
export function spokenKems(): readonly number[] {
  return lattice().encapsulateBits ? [KEM_HYBRID, KEM_X25519] : [KEM_X25519];
}

export interface Encapsulated {
  /** 32 bytes. */
  readonly shared: Bytes;
  readonly enc: Bytes;
}

/** Make a shared secret for whoever has the private half: `channel-key-invalid`, `channel-keys-unsupported`. */
export async function encapsulate(kem: number, publicKey: Bytes): Promise<Encapsulated> {
  if (publicKey.length !== PUBLIC_BYTES[kem]) fail("verification", "channel-key-invalid", "", { got: `${publicKey.length} bytes`, clause: CLAUSE });
  const theirs = publicKey.slice(-CURVE_BYTES);
  try {
    const { secret, point } = await exchange(theirs);
    if (kem === KEM_X25519) return { shared: await curveSecret(secret, point, publicKey), enc: point };
    const key = await lattice().importKey("raw-public", publicKey.slice(0, -CURVE_BYTES), LATTICE, false, ["encapsulateBits"]);
    const made = await lattice().encapsulateBits?.(LATTICE, key);
    if (!made) throw new TypeError("no ML-KEM");
    const shared = sha3(concat(new Uint8Array(made.sharedKey), secret, point, theirs, XWING_LABEL));
    return { shared, enc: concat(new Uint8Array(made.ciphertext), point) };
  } catch (error) {
    if ((error as Error).name === "NotSupportedError") throw refusal("unsupported", "channel-keys-unsupported", "X25519 or ML-KEM", "a browser without it");
    throw refusal("verification", "channel-key-invalid", "a key of its KEM", "no public key", { clause: CLAUSE });
  }
}

/** X25519 with a fresh key; a secret of zeros says that theirs was no key. */
async function exchange(theirs: Bytes): Promise<{ readonly secret: Bytes; readonly point: Bytes }> {
  const own = (await crypto.subtle.generateKey(CURVE, false, ["deriveBits"])) as CryptoKeyPair;
  const key = await crypto.subtle.importKey("raw", theirs, CURVE, false, []);
  const secret = new Uint8Array(await crypto.subtle.deriveBits({ ...CURVE, public: key }, own.privateKey, 256));
  if (isZero(secret)) throw new TypeError("no secret");
  return { secret, point: new Uint8Array(await crypto.subtle.exportKey("raw", own.publicKey)) };
}

async function curveSecret(secret: Bytes, enc: Bytes, publicKey: Bytes): Promise<Bytes> {
  const suite = concat(utf8("KEM"), be2(KEM_X25519));
  const extracted = await labeledExtract(suite, new Uint8Array(0), "eae_prk", secret);
  return labeledExpand(suite, extracted, "shared_secret", concat(enc, publicKey), 32);
}

// -- contexts

/** AES-256-GCM whose nonces count from a base. One direction and one owner: calls wait for the one before. */
export interface CountedAead {
  readonly seal: (plaintext: Bytes, aad?: string) => Promise<Bytes>;
  /** Open the next message, or refuse with `channel-not-opened`, and then no other will open. */
  readonly open: (sealed: Bytes, aad?: string) => Promise<Bytes>;
}

export async function aeadOf(key: Bytes, base: Bytes): Promise<CountedAead> {
  const imported = await crypto.subtle.importKey("raw", key, "AES-GCM", false, ["encrypt", "decrypt"]);
  let sequence = 0;
  /** The counter stays in the last four bytes: no message has so many chunks. */
  const next = (aad = ""): AesGcmParams => {
    const iv = base.slice();
    const last = new DataView(iv.buffer, NONCE_BYTES - 4);
    last.setUint32(0, last.getUint32(0) ^ sequence++);
    return { name: "AES-GCM", iv, additionalData: utf8(aad) };
  };
  return {
    seal: async (plaintext, aad) => new Uint8Array(await crypto.subtle.encrypt(next(aad), imported, plaintext)),
    open: (sealed, aad) =>
      crypto.subtle.decrypt(next(aad), imported, sealed).then(
        (plaintext) => new Uint8Array(plaintext),
        () => refuse("verification", "channel-not-opened"),
      ),
  };
}

/** One exchange: seals requests, and exports what opens the answer. */
export interface Context {
  readonly aead: CountedAead;
  readonly export: (label: string, length: number) => Promise<Bytes>;
}

/** The three ids of a suite, two bytes each. */
export function suiteBytes(kem: number): Bytes {
  return concat(be2(kem), be2(KDF_SHA256), be2(AES_256_GCM));
}

/** Run the key schedule (section 5.1, mode_base). */
export async function contextOf(kem: number, shared: Bytes, info: Bytes): Promise<Context> {
  const [suite, none] = [concat(utf8("HPKE"), suiteBytes(kem)), new Uint8Array(0)];
  const hashes = await Promise.all([labeledExtract(suite, none, "psk_id_hash", none), labeledExtract(suite, none, "info_hash", info)]);
  const context = concat(Uint8Array.of(0), ...hashes);
  const secret = await labeledExtract(suite, shared, "secret", none);
  const [key, nonce, exporter] = await Promise.all([
    labeledExpand(suite, secret, "key", context, KEY_BYTES),
    labeledExpand(suite, secret, "base_nonce", context, NONCE_BYTES),
    labeledExpand(suite, secret, "exp", context, 32),
  ]);
  return { aead: await aeadOf(key, nonce), export: (label, length) => labeledExpand(suite, exporter, "sec", utf8(label), length) };
}
