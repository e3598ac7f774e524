/**
 * The runtime claims: what the paravisor says of its TPM and its VM, covered by the CPU's signature through a digest
 * (azure-cvm.md 3, check A02). Read for a verdict only after the digest was compared.
 */

import { type Bytes, base64urlBytes, hexBytes } from "../bytes";
import { rsaSpki } from "../crypto";
import { fail } from "../errors";
import { type JsonObject, type JsonValue, isObject, jsonValue } from "../json";
import { jsonText } from "../json_text";

const AK_KID = "HCLAkPub";
const [MIN_AK_BITS, MAX_AK_BITS, MAX_KEYS, EXPONENT] = [2048, 4096, 16, "010001"];

/** Members of vm-configuration: their names in our claims, and their types. */
const VM_CONFIGURATION: Readonly<Record<string, readonly [name: string, type: "boolean" | "string"]>> = {
  "console-enabled": ["console_enabled", "boolean"],
  "secure-boot": ["secure_boot", "boolean"],
  "tpm-enabled": ["tpm_enabled", "boolean"],
  "tpm-persisted": ["tpm_persisted", "boolean"],
  "filtered-vpci-devices-allowed": ["filtered_vpci_devices_allowed", "boolean"],
  vmUniqueId: ["vm_unique_id", "string"],
  "root-cert-thumbprint": ["root_cert_thumbprint", "string"],
};

export interface RuntimeClaims {
  /** The key with which the virtual TPM signs quotes, DER. */
  readonly ak: Bytes;
  readonly akBits: number;
  readonly vmConfiguration: Readonly<Record<string, boolean | string>>;
  /** 64 bytes that the guest wrote before the report was made. */
  readonly userData: Bytes | undefined;
  /** Members that are not known, path to compact JSON. */
  readonly unknown: Readonly<Record<string, string>>;
}

function malformed(field: string, expected: string, got = "another value"): never {
  const facts = { field, expected, got, clause: "azure-cvm.md 3" };
  return fail("malformed", "azure-claims-malformed", "", facts);
}

/** Refuses with `json-invalid`, `azure-claims-malformed`, `base64-invalid` or `hex-invalid`. */
export function parseRuntimeClaims(data: Bytes): RuntimeClaims {
  const document = jsonValue(data, "runtime claims");
  if (!isObject(document)) return malformed("runtime claims", "an object");
  const configuration = "vm-configuration" in document ? document["vm-configuration"] : {};
  if (!isObject(configuration)) return malformed("vm-configuration", "an object");
  const vmConfiguration: Record<string, boolean | string> = {};
  for (const [member, [name, type]] of Object.entries(VM_CONFIGURATION)) {
    if (!(member in configuration)) continue;
    const value = configuration[member];
    if (typeof value !== type) malformed(`vm-configuration.${member}`, type === "boolean" ? "true or false" : "text");
    vmConfiguration[name] = value as boolean | string;
  }
  const unknown = {
    ...unknownOf("vm-configuration.", configuration, Object.keys(VM_CONFIGURATION)),
    ...unknownOf("", document, ["keys", "vm-configuration", "user-data"]),
  };
  const key = attestationKey(document.keys);
  const userData = "user-data" in document ? userDataOf(document["user-data"]) : undefined;
  return { ...key, vmConfiguration, userData, unknown };
}

function unknownOf(prefix: string, document: JsonObject, known: readonly string[]): Record<string, string> {
  const entries = Object.entries(document).filter(([name]) => !known.includes(name));
  return Object.fromEntries(entries.map(([name, value]) => [prefix + name, jsonText(value)]));
}

function userDataOf(value: JsonValue | undefined): Bytes {
  return typeof value === "string" ? hexBytes(value, "user-data", 64) : malformed("user-data", "128 hex digits");
}

/** The one key with the attestation key's name; its operations are not judged, old paravisors lie there. */
function attestationKey(keys: JsonValue | undefined): { ak: Bytes; akBits: number } {
  if (!Array.isArray(keys) || keys.length > MAX_KEYS) return malformed("keys", `an array of at most ${MAX_KEYS} keys`);
  const found = keys.filter((entry): entry is JsonObject => isObject(entry) && entry.kid === AK_KID);
  const [key] = found;
  if (!key || found.length > 1) return malformed("keys", `one key ${AK_KID}`, `${found.length}`);
  if (key.kty !== "RSA") malformed(`${AK_KID}.kty`, "RSA", "another kind of key");
  const number = (name: string): Bytes => {
    const text = key[name];
    const bytes = typeof text === "string" ? base64urlBytes(text, `${AK_KID}.${name}`) : malformed(`${AK_KID}.${name}`, "base64url text");
    return bytes.slice(Math.max(bytes.findIndex((byte) => byte !== 0), 0));
  };
  const [modulus, exponent] = [number("n"), number("e")];
  const akBits = modulus.length * 8 - Math.clz32(modulus[0] ?? 0) + 24;
  const odd = ((modulus.at(-1) ?? 0) & 1) === 1;
  if ([...exponent].map((byte) => byte.toString(16).padStart(2, "0")).join("") !== EXPONENT || akBits < MIN_AK_BITS || akBits > MAX_AK_BITS || !odd) {
    malformed(AK_KID, `an odd modulus of ${MIN_AK_BITS} to ${MAX_AK_BITS} bits, exponent 65537`, `${akBits} bits`);
  }
  return { ak: rsaSpki(modulus, exponent), akBits };
}
