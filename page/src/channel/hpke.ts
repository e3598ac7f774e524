/**
 * HPKE in base mode, the sender's side (RFC 9180), by WebCrypto.
 *
 *     0x647a   X-Wing: SHA3-256( ss_M ‖ ss_X ‖ ct_X ‖ pk_X ‖ label ); enc ct_M ‖ ct_X, public pk_M ‖ pk_X
 *     0x0020   DHKEM(X25519, HKDF-SHA256); enc 32, public 32
 *
 * Always HKDF-SHA256 and AES-256-GCM. No output of the key derivation here is longer than one hash.
 */

import { type Bytes, NO_BYTES, concat, isZero, padded, unhex, utf8 } from "../verifier/bytes";
import { need, refuse } from "../verifier/errors";
import { AES_256_GCM, KDF_SHA256, KEM_X25519, PUBLIC_BYTES, be2 } from "./algorithms";
import { sha3 } from "./sha3";

export const TAG_BYTES = 16;
export const KEY_BYTES = 32;

const CURVE_BYTES = 32;
const NONCE_BYTES = 12;
const LATTICE = { name: "ML-KEM-768" };
const CURVE = { name: "X25519" };
const XWING_LABEL = unhex("5c2e2f2f5e5c");

// -- key derivation

/**
 * HKDF-Extract, and each step of HKDF-Expand. HMAC fills its key up with zeros, which WebCrypto wants to see where it
 * is empty.
 */
export async function extract(key: Bytes, data: Bytes): Promise<Bytes> {
  const imported = await crypto.subtle.importKey("raw", padded(key, 32), { name: "HMAC", hash: "SHA-256" }, false, [
    "sign",
  ]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", imported, data));
}

/** HKDF-Expand, of at most 32 bytes. */
export async function expand(secret: Bytes, info: Uint8Array, length: number): Promise<Bytes> {
  return (await extract(secret, concat(info, Uint8Array.of(1)))).slice(0, length);
}

/** LabeledExtract and LabeledExpand of one suite (section 4). */
function labeled(id: string, ...ids: readonly number[]) {
  const named = (label: string): Bytes => concat(utf8(`HPKE-v1${id}`), ...ids.map(be2), utf8(label));
  return {
    extracted: (salt: Bytes, label: string, material: Bytes) => extract(salt, concat(named(label), material)),
    expanded: (secret: Bytes, label: string, info: Bytes, length: number) =>
      expand(secret, concat(be2(length), named(label), info), length),
  };
}

// -- KEMs

/** A browser that may lack ML-KEM; its types do not know it yet. */
interface Lattice {
  importKey(
    format: "raw-public",
    key: Bytes,
    algorithm: typeof LATTICE,
    extractable: boolean,
    usages: readonly ["encapsulateBits"],
  ): Promise<CryptoKey>;
  encapsulateBits?(
    algorithm: typeof LATTICE,
    key: CryptoKey,
  ): Promise<{ readonly sharedKey: ArrayBuffer; readonly ciphertext: ArrayBuffer }>;
}

const lattice = (): Lattice => crypto.subtle as unknown as Lattice;

export interface Encapsulated {
  /** 32 bytes. */
  readonly shared: Bytes;
  readonly enc: Bytes;
}

/** Make a shared secret for the holder of the private half: `channel-key-invalid`, `channel-keys-unsupported`. */
export async function encapsulate(kem: number, publicKey: Bytes): Promise<Encapsulated> {
  need(
    publicKey.length === PUBLIC_BYTES[kem],
    "verification",
    "channel-key-invalid",
    PUBLIC_BYTES[kem],
    publicKey.length,
  );
  const theirs = publicKey.slice(-CURVE_BYTES);
  try {
    const { secret, point } = await exchange(theirs);
    if (kem === KEM_X25519) return { shared: await curveSecret(secret, point, publicKey), enc: point };
    const key = await lattice().importKey("raw-public", publicKey.slice(0, -CURVE_BYTES), LATTICE, false, [
      "encapsulateBits",
    ]);
    const made = await lattice().encapsulateBits?.(LATTICE, key);
    if (!made) throw new TypeError("no ML-KEM");
    const shared = sha3(concat(new Uint8Array(made.sharedKey), secret, point, theirs, XWING_LABEL));
    return { shared, enc: concat(new Uint8Array(made.ciphertext), point) };
  } catch (error) {
    need(
      (error as Error).name !== "NotSupportedError",
      "unsupported",
      "channel-keys-unsupported",
      "X25519 or ML-KEM",
      "a browser without it",
    );
    return refuse("verification", "channel-key-invalid", "a key of its KEM");
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
  const { extracted, expanded } = labeled("KEM", KEM_X25519);
  return expanded(await extracted(NO_BYTES, "eae_prk", secret), "shared_secret", concat(enc, publicKey), 32);
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

/** Run the key schedule (section 5.1, mode_base). */
export async function contextOf(kem: number, shared: Bytes, info: Bytes): Promise<Context> {
  const { extracted, expanded } = labeled("HPKE", kem, KDF_SHA256, AES_256_GCM);
  const context = concat(
    Uint8Array.of(0),
    await extracted(NO_BYTES, "psk_id_hash", NO_BYTES),
    await extracted(NO_BYTES, "info_hash", info),
  );
  const secret = await extracted(shared, "secret", NO_BYTES);
  const aead = await aeadOf(
    await expanded(secret, "key", context, KEY_BYTES),
    await expanded(secret, "base_nonce", context, NONCE_BYTES),
  );
  const exporter = await expanded(secret, "exp", context, 32);
  return { aead, export: (label, length) => expanded(exporter, "sec", utf8(label), length) };
}
