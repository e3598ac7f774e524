/**
 * The runtime claims: what the paravisor says of its TPM and its VM, covered by the CPU's signature through a digest
 * (azure-cvm.md 3, check A02). Read for a verdict only after the digest was compared.
 */

import { type Bytes, hex } from "../bytes";
import { base64urlBytes, hexBytes } from "../encoding";
import { rsaSpki } from "../crypto";
import { type Demand, demandsOf } from "../errors";
import { type JsonObject, type JsonValue, isObject, jsonValue } from "../json";
import { jsonText } from "../json_text";

const AK_KID = "HCLAkPub";
const AK = {
  minBits: 2048,
  maxBits: 4096,
  maxKeys: 16,
} as const;

/** Members of vm-configuration, and their types. */
const FLAGS = ["console-enabled", "secure-boot", "tpm-enabled", "tpm-persisted", "filtered-vpci-devices-allowed"];
const TEXTS = ["vmUniqueId", "root-cert-thumbprint"];

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

const demand: Demand = demandsOf("malformed", "azure-claims-malformed");

/** Refuses with `json-invalid`, `azure-claims-malformed`, `base64-invalid` or `hex-invalid`. */
export function parseRuntimeClaims(data: Bytes): RuntimeClaims {
  const document = jsonValue(data, "runtime claims");
  demand(isObject(document), "runtime claims", "object");
  const {
    keys,
    "vm-configuration": configuration = Object.create(null) as JsonObject,
    "user-data": userData,
    ...others
  } = document;
  demand(isObject(configuration), "vm-configuration", "object");
  const unknown: (readonly [path: string, text: string])[] = [];
  const vmConfiguration: Record<string, boolean | string> = {};
  for (const [member, value] of Object.entries(configuration)) {
    const type = FLAGS.includes(member) ? "boolean" : TEXTS.includes(member) && "string";
    if (!type) unknown.push([`vm-configuration.${member}`, jsonText(value)]);
    else {
      demand(typeof value === type, member, type);
      // Our claims have their names in snake case.
      vmConfiguration[member.replace(/-|(?=[A-Z])/g, "_").toLowerCase()] = value as boolean | string;
    }
  }
  for (const [member, value] of Object.entries(others)) unknown.push([member, jsonText(value)]);
  const key = attestationKey(keys);
  demand(userData === undefined || typeof userData === "string", "user-data", "text");
  return {
    ...key,
    vmConfiguration,
    userData: userData === undefined ? userData : hexBytes(userData, "user-data", 64),
    unknown: Object.fromEntries(unknown),
  };
}

/** The one key with the attestation key's name; its operations are not judged, old paravisors lie there. */
function attestationKey(keys: JsonValue | undefined): { ak: Bytes; akBits: number } {
  demand(Array.isArray(keys) && keys.length <= AK.maxKeys, "keys", AK.maxKeys);
  const [key, another] = keys.filter((entry): entry is JsonObject => isObject(entry) && entry.kid === AK_KID);
  demand(key && !another, "keys", AK_KID);
  demand(key.kty === "RSA", "kty", "RSA");
  const number = (name: string): Bytes => {
    const text = key[name];
    demand(typeof text === "string", name, "text");
    const bytes = base64urlBytes(text, name);
    return bytes.slice(bytes.findIndex(Boolean));
  };
  const modulus = number("n");
  const exponent = number("e");
  const akBits = modulus.length * 8 - Math.clz32(modulus[0]!) + 24;
  const isUsable = hex(exponent) === "010001" && akBits >= AK.minBits && akBits <= AK.maxBits && modulus.at(-1)! & 1;
  demand(isUsable, AK_KID, "odd, 2048 to 4096 bits, 65537", akBits);
  return { ak: rsaSpki(modulus), akBits };
}
