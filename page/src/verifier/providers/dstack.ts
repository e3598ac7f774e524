/**
 * Documents of dstack machines: NEAR direct and through its gateway, Venice, NanoGPT, and RedPill's own models
 * (providers.md 2).
 *
 *     REPORT_DATA[0:32]  = address, zeros behind it          without tls_cert_fingerprint
 *                        = SHA-256( address ‖ fingerprint )  with it
 *     REPORT_DATA[32:64] = nonce, which is that of each GPU
 */

import { type Bytes, concat, hex, padded, utf8 } from "../bytes";
import type { ClaimTree } from "../claims";
import { sha256 } from "../crypto";
import type { Item } from "../envelope";
import { type JsonObject, type JsonValue, jsonValue } from "../json";
import { jsonText } from "../json_text";
import { splitNvidiaJson } from "../nvidia_json";
import { type Told, same } from "../procedure";
import type { Certificate } from "../x509";
import { type ComposeManager, readComposeManager, requireList } from "./compose_manager";
import {
  type Commitment,
  type Comparison,
  type Construction,
  MAX_MACHINES,
  type Machine,
  type Presented,
  type ProviderDocument,
  type Role,
  type StepName,
  requireGpuNonces,
} from "./document";
import { dstackItems } from "./dstack_items";
import { type OhttpKey, readOhttpKey, requireSigned } from "./ohttp";
import { type SigningKey, publicKeyOf, readSigningKey, requireFitting } from "./signing_keys";
import { DIGEST_BYTES, arrayOf, certificatesAt, demand, given, hexAt, membersOf, optionalHexAt } from "./values";

/** Members of a machine that have a meaning; a copy that agrees in all of them is the same machine. */
const COPIED = [
  ...["signing_address", "signing_algo", "signing_public_key", "signing_key", "request_nonce", "intel_quote", "quote"],
  ...["nvidia_payload", "event_log", "report_data", "info", "vm_config", "tls_cert_fingerprint"],
];

class DstackCommitment implements Commitment {
  readonly gpuBinding = "nonce";
  readonly keyScope = "app";

  constructor(
    private readonly stated: {
      readonly key: SigningKey;
      readonly fingerprint: Bytes | undefined;
      readonly nonce: Bytes | undefined;
      readonly quotes: readonly Bytes[];
      readonly certificates: readonly Certificate[];
      readonly manager: ComposeManager | undefined;
      readonly ohttp: OhttpKey | undefined;
    },
  ) {}

  get cautions(): readonly string[] {
    const { fingerprint, manager } = this.stated;
    const code = manager ? "code-reported" : "code-by-compose-hash";
    return [...(fingerprint ? [] : ["tls-not-bound"]), "key-of-app", code, "weights-not-proven"];
  }

  construct(presented: Presented, nonce: Bytes | undefined): Construction {
    const { key, fingerprint, ohttp } = this.stated;
    const own = presented.reportData.slice(32);
    const comparisons: Partial<Record<StepName, Comparison | undefined>> = {
      nonce: nonce && (() => same("nonce-mismatch", "REPORT_DATA[32:64]", nonce, own)),
      binding: () => this.requireBinding(presented),
      keys: () => this.requireKeys(),
      gpus: presented.devices.length ? () => requireGpuNonces(presented, own) : undefined,
      statements: () => this.requireStatements(presented),
      envelope: ohttp && (() => requireSigned(ohttp)),
    };
    const { algorithm, address } = key;
    const keys = { address, algorithm, public_key: publicKeyOf(key), tls_spki_sha256: fingerprint };
    return { comparisons, keys, claims: this.claims() };
  }

  private async requireBinding({ reportData }: Presented): Promise<Told> {
    const { key, fingerprint } = this.stated;
    const wanted = fingerprint ? await sha256(concat(key.address, fingerprint)) : padded(key.address, 32);
    return same("provider-binding-mismatch", "REPORT_DATA[0:32]", wanted, reportData.slice(0, 32));
  }

  private async requireKeys(): Promise<Told> {
    const { key, fingerprint, certificates } = this.stated;
    const told = requireFitting(key);
    const [leaf] = certificates;
    if (!leaf || !fingerprint) return told;
    return same("provider-key-mismatch", "tls_certificate", fingerprint, await sha256(leaf.spki));
  }

  private requireStatements(presented: Presented): Told {
    const { nonce, quotes, manager } = this.stated;
    const agree = (field: string, wanted: Bytes, got: Bytes): Told =>
      same("provider-statement-mismatch", field, wanted, got);
    if (nonce) agree("request_nonce", presented.reportData.slice(32), nonce);
    for (const copy of quotes.slice(1)) agree("quote", quotes[0]!, copy);
    if (manager && presented.witness) requireList(manager, presented.witness, presented);
    return ["no contradiction to the quote", "none"];
  }

  private claims(): ClaimTree {
    const { key, ohttp, manager } = this.stated;
    const isOwn = ohttp && hex(ohttp.signingKey) === hex(key.address);
    return {
      ohttp_key_config: isOwn ? ohttp.keyConfig : undefined,
      compose_manager: manager && { actions: manager.count },
    };
  }
}

export async function readMachine(document: JsonValue): Promise<ProviderDocument> {
  const top = membersOf(document, "document");
  const listed = given(top, "all_attestations") ? arrayOf(top.all_attestations, "all_attestations", MAX_MACHINES) : [];
  const found = new Map<string, readonly [Role, JsonObject, string]>([[meaningOf(top), ["model", top, "document"]]]);
  for (const [number, entry] of listed.entries()) {
    const path = `all_attestations[${number}]`;
    const members = membersOf(entry, path);
    const meaning = meaningOf(members);
    found.set(meaning, found.get(meaning) ?? ["model", members, path]);
  }
  const machines = await numbered([...found.values()]);
  return { label: "attestation document of a dstack machine (JSON)", machines };
}

export async function readGateway(document: JsonValue): Promise<ProviderDocument> {
  const top = membersOf(document, "document");
  const gateway = membersOf(top.gateway_attestation, "gateway_attestation");
  const own = Object.fromEntries(
    Object.entries(top).filter(([name]) => /^(?:tls_certificate|ohttp_key_config|ohttp_attestation)$/.test(name)),
  );
  const models = arrayOf(top.model_attestations, "model_attestations", MAX_MACHINES - 1);
  demand(models.length, "model_attestations", "at least one machine");
  const machines = await numbered([
    ["gateway", { ...gateway, ...own }, "gateway_attestation"],
    ...models.map((entry, number): readonly [Role, JsonObject, string] => {
      const path = `model_attestations[${number}]`;
      return ["model", membersOf(entry, path), path];
    }),
  ]);
  return { label: "attestation document of a gateway and its machines (JSON)", machines };
}

/** All members that have a meaning, as one text. */
const meaningOf = (members: JsonObject): string =>
  jsonText(
    COPIED.map((name) => members[name] ?? null),
    { isSorted: true },
  );

async function numbered(found: readonly (readonly [Role, JsonObject, string])[]): Promise<readonly Machine[]> {
  const machines: Machine[] = [];
  for (const [number, [role, members, path]] of found.entries()) {
    machines.push(await machineOf(`${number}`, role, members, path));
  }
  return machines;
}

async function machineOf(name: string, role: Role, members: JsonObject, path: string): Promise<Machine> {
  const quote = hexAt(members, "intel_quote", path);
  const copy = optionalHexAt(members, "quote", path);
  const manager = await readComposeManager(members, path);
  const commitment = new DstackCommitment({
    key: readSigningKey(members, path),
    fingerprint: optionalHexAt(members, "tls_cert_fingerprint", path, DIGEST_BYTES),
    nonce: optionalHexAt(members, "request_nonce", path, DIGEST_BYTES),
    quotes: copy ? [quote, copy] : [quote],
    certificates: given(members, "tls_certificate") ? await certificatesAt(members, "tls_certificate", path) : [],
    manager,
    ohttp: readOhttpKey(members, path),
  });
  const evidence = [...dstackItems(quote, members), ...gpuItems(members, path)];
  return { name, role, evidence, commitment, witness: manager?.evidence };
}

function gpuItems(members: JsonObject, path: string): readonly Item[] {
  const payload = members.nvidia_payload ?? null;
  const devices = typeof payload === "string" ? jsonValue(utf8(payload), `${path}.nvidia_payload`) : payload;
  return devices === null ? [] : splitNvidiaJson(devices);
}
