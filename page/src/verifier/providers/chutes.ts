/**
 * Chutes: evidence of instances and their ML-KEM keys, in two answers or, through RedPill and NanoGPT, in one list
 * (providers.md 3).
 *
 *     REPORT_DATA[0:32]  = SHA-256( nonce as 64 hex digits ‖ ML-KEM key as base64 text )
 *     REPORT_DATA[32:64] = SHA-256( SubjectPublicKeyInfo of the instance's certificate )
 *     nonce of each GPU  = REPORT_DATA[0:32]
 */

import { type Bytes, hex, utf8 } from "../bytes";
import { sha256 } from "../crypto";
import { MEDIA, itemOf } from "../envelope";
import { refuse } from "../errors";
import { type JsonObject, type JsonValue } from "../json";
import { splitNvidiaJson } from "../nvidia_json";
import { type Told, same } from "../procedure";
import type { Certificate } from "../x509";
import {
  type Commitment,
  type Construction,
  MAX_MACHINES,
  MAX_NAME_CHARACTERS,
  type Machine,
  type Presented,
  type ProviderDocument,
  requireGpuNonces,
} from "./document";
import { DIGEST_BYTES, arrayOf, base64At, certificateAt, demand, given, hexAt, membersOf, textAt } from "./values";

/** ML-KEM-768 (FIPS 203). */
const KEM_KEY_BYTES = 1184;
const MAX_INSTANCES = 64;

/** The key as text, which is hashed as it stands, and as bytes. */
interface KemKey {
  readonly text: string;
  readonly bytes: Bytes;
}

class ChutesCommitment implements Commitment {
  readonly gpuBinding = "report-data";
  readonly keyScope = "machine";
  readonly cautions = ["tls-not-bound", "code-not-shown", "weights-not-proven"];

  constructor(
    private readonly key: KemKey | undefined,
    private readonly statedNonce: Bytes | undefined,
    private readonly certificate: Certificate | undefined,
  ) {}

  construct(presented: Presented, nonce: Bytes | undefined): Construction {
    const known = this.statedNonce ?? nonce;
    const first = presented.reportData.slice(0, 32);
    const compared = async (code: string, by: Bytes): Promise<Told> =>
      same(code, "REPORT_DATA[0:32]", await sha256(utf8(hex(by) + this.requiredKey().text)), first);
    return {
      comparisons: {
        nonce: nonce && (() => compared("nonce-mismatch", nonce)),
        binding: known && (() => compared("provider-binding-mismatch", known)),
        keys: () => this.requireKeys(presented),
        gpus: presented.devices.length ? () => requireGpuNonces(presented, first) : undefined,
      },
      keys: { kem_public_key: known && this.key?.bytes },
    };
  }

  private requiredKey(): KemKey {
    return (
      this.key ??
      refuse("endorsement", "provider-key-missing", "the key of this instance", "none", { field: "e2e_pubkey" })
    );
  }

  /** Require a key, and the certificate that the second half of REPORT_DATA names, where it is passed on. */
  private async requireKeys({ reportData }: Presented): Promise<Told> {
    const { text } = this.requiredKey();
    if (!this.certificate) return ["an ML-KEM key", text];
    const spki = await sha256(this.certificate.spki);
    return same("provider-key-mismatch", "REPORT_DATA[32:64]", spki, reportData.slice(32));
  }
}

/** Read the two answers, or one of them. */
export async function readEvidenceAnswer(
  document: JsonValue,
  instances: JsonValue | undefined,
): Promise<ProviderDocument> {
  const keys = instances === undefined ? new Map<string, KemKey>() : await readKeys(instances);
  const entries = arrayOf(membersOf(document, "document").evidence, "evidence", MAX_MACHINES);
  const machines: Machine[] = [];
  for (const [number, entry] of entries.entries()) {
    const path = `evidence[${number}]`;
    const members = membersOf(entry, path);
    const name = instanceAt(members, path);
    const certificate = await certificateAt(members, "certificate", path);
    machines.push(await machineOf(members, path, "quote", name, [keys.get(name), undefined, certificate]));
  }
  demand(machines.length, "evidence", "at least one instance");
  const isWithout = [...keys.keys()].some((name) => !machines.some((machine) => machine.name === name));
  return {
    label: "Chutes evidence (JSON)",
    machines,
    cautions: isWithout ? ["instances-without-evidence"] : [],
  };
}

/** Read the list of a reseller. */
export async function readList(document: JsonValue): Promise<ProviderDocument> {
  const entries = arrayOf(membersOf(document, "document").all_attestations, "all_attestations", MAX_MACHINES);
  const machines: Machine[] = [];
  for (const [number, entry] of entries.entries()) {
    const path = `all_attestations[${number}]`;
    const members = membersOf(entry, path);
    const key = given(members, "e2e_pubkey") ? await kemKeyAt(members, path) : undefined;
    const nonce = hexAt(members, "nonce", path, DIGEST_BYTES);
    const name = instanceAt(members, path);
    machines.push(await machineOf(members, path, "intel_quote", name, [key, nonce, undefined]));
  }
  demand(machines.length, "all_attestations", "at least one instance");
  return { label: "list of Chutes instances (JSON)", machines };
}

async function readKeys(document: JsonValue): Promise<ReadonlyMap<string, KemKey>> {
  const keys = new Map<string, KemKey>();
  for (const [number, entry] of arrayOf(
    membersOf(document, "document").instances,
    "instances",
    MAX_INSTANCES,
  ).entries()) {
    const path = `instances[${number}]`;
    const members = membersOf(entry, path);
    const name = instanceAt(members, path);
    demand(!keys.has(name), `${path}.instance_id`, "each instance once");
    keys.set(name, await kemKeyAt(members, path));
  }
  return keys;
}

function instanceAt(members: JsonObject, path: string): string {
  const name = textAt(members, "instance_id", path);
  const isName = name && name.length <= MAX_NAME_CHARACTERS && /^[ -~]*$/.test(name) && !name.includes("/");
  demand(isName, `${path}.instance_id`, `1 to ${MAX_NAME_CHARACTERS} printable characters`);
  return name;
}

async function kemKeyAt(members: JsonObject, path: string): Promise<KemKey> {
  const bytes = await base64At(members, "e2e_pubkey", path);
  demand(bytes.length === KEM_KEY_BYTES, `${path}.e2e_pubkey`, `${KEM_KEY_BYTES} bytes, ML-KEM-768`);
  return { text: textAt(members, "e2e_pubkey", path), bytes };
}

async function machineOf(
  members: JsonObject,
  path: string,
  quote: string,
  name: string,
  stated: ConstructorParameters<typeof ChutesCommitment>,
): Promise<Machine> {
  const cpu = itemOf("cpu", MEDIA.intelQuote, await base64At(members, quote, path));
  const gpus = members.gpu_evidence ?? null;
  const evidence = [cpu, ...(gpus === null ? [] : splitNvidiaJson(gpus))];
  return { name, role: "model", evidence, commitment: new ChutesCommitment(...stated) };
}
