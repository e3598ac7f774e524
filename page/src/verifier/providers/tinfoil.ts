/**
 * Tinfoil's attestation documents, version 2 and 3 (providers.md 4).
 *
 *     version 3   REPORT_DATA[0:32]  = SHA-256( tls_key_fp ‖ hpke_key ‖ nonce ‖
 *                                               gpu_evidence_hash ‖ nvswitch_evidence_hash )
 *                 REPORT_DATA[32:64] = 0
 *                 gpu_evidence_hash  = SHA-256( the value of the member gpu, byte for byte )
 *                 nonce of each GPU  = nonce
 *                 signature          = ECDSA by the certificate's key over the document with an empty signature
 *     version 2   REPORT_DATA        = tls_key_fp ‖ hpke_key, no nonce
 */

import { type Bytes, concat, padded, utf8 } from "../bytes";
import { schemeHolds, sha256 } from "../crypto";
import { ecdsaRaw } from "../der";
import { MEDIA, itemOf, numbered } from "../envelope";
import { need, refuse } from "../errors";
import type { JsonValue } from "../json";
import { splitNvidiaJson } from "../nvidia_json";
import { type Told, same } from "../procedure";
import type { Certificate } from "../x509";
import {
  type Commitment,
  type Construction,
  type Presented,
  type ProviderDocument,
  requireGpuNonces,
} from "./document";
import { rawMembers } from "./raw_members";
import {
  DIGEST_BYTES,
  base64At,
  certificatesAt,
  demand,
  given,
  hexAt,
  membersOf,
  optionalHexAt,
  textAt,
  unsupported,
} from "./values";

const FORMAT_V3 = "https://tinfoil.sh/predicate/attestation/v3";
const FORMATS_V2: ReadonlyMap<string, string> = new Map([
  ["https://tinfoil.sh/predicate/tdx-guest/v2", MEDIA.intelQuote],
  ["https://tinfoil.sh/predicate/sev-snp-guest/v2", MEDIA.snpReport],
]);
const PLATFORMS: ReadonlyMap<string, string> = new Map([
  ["tdx", MEDIA.intelQuote],
  ["sev-snp", MEDIA.snpReport],
]);
/** Members with the evidence of devices; each has its hash among those of `report_data`. */
const HASHED = ["gpu", "nvswitch"] as const;
/** Of a quote with its certificates; recorded ones have 5 kB. */
const MAX_REPORT_BYTES = 64 * 1024;

interface Statements {
  readonly tlsKeyFp: Bytes;
  readonly hpkeKey: Bytes;
  readonly nonce: Bytes;
  /** The stated hash of the evidence of devices, and that of its exact bytes. */
  readonly hashes: readonly {
    readonly name: string;
    readonly stated: Bytes | undefined;
    readonly found: Bytes | undefined;
  }[];
  readonly leaf: Certificate;
  readonly signature: Bytes;
  /** The document with an empty signature, as received, without white space around it. */
  readonly signed: Bytes;
}

class TinfoilCommitment implements Commitment {
  readonly gpuBinding = "hash";
  readonly keyScope = "machine";
  readonly cautions = ["measurements-not-compared"];

  constructor(private readonly stated: Statements) {}

  construct(presented: Presented, nonce: Bytes | undefined): Construction {
    const { tlsKeyFp, hpkeKey, nonce: own } = this.stated;
    return {
      comparisons: {
        nonce: nonce && (() => same("nonce-mismatch", "report_data.nonce", nonce, own)),
        binding: () => this.requireBinding(presented),
        keys: () => this.requireCertificate(),
        gpus: () => this.requireGpus(presented),
        envelope: () => this.requireSignature(),
      },
      keys: { tls_spki_sha256: tlsKeyFp, hpke_public_key: hpkeKey },
    };
  }

  private async requireBinding({ reportData }: Presented): Promise<Told> {
    const { tlsKeyFp, hpkeKey, nonce, hashes } = this.stated;
    const known = hashes.flatMap(({ stated }) => (stated ? [stated] : []));
    const wanted = padded(await sha256(concat(tlsKeyFp, hpkeKey, nonce, ...known)), 64);
    return same("provider-binding-mismatch", "REPORT_DATA", wanted, reportData);
  }

  private async requireCertificate(): Promise<Told> {
    const { tlsKeyFp, leaf } = this.stated;
    return same("provider-key-mismatch", "report_data.tls_key_fp", tlsKeyFp, await sha256(leaf.spki));
  }

  private requireGpus(presented: Presented): Told {
    for (const { name, stated, found } of this.stated.hashes) {
      const field = `report_data.${name}_evidence_hash`;
      const isBoth = (stated === undefined) === (found === undefined);
      need(isBoth, "binding", "provider-gpus-uncommitted", "both or neither", name, { field });
      if (stated && found) same("provider-gpu-hash-mismatch", field, stated, found);
    }
    return requireGpuNonces(presented, this.stated.nonce);
  }

  private async requireSignature(): Promise<Told> {
    const { leaf, signature, signed } = this.stated;
    const expected = "ECDSA with SHA-256 by the certificate's key over the document with an empty signature";
    const holds = await schemeHolds("ECDSA", leaf.spki, "SHA-256", signature, signed, ecdsaRaw);
    need(holds, "signature", "provider-signature-invalid", expected, signature, { field: "signature" });
    return [expected, leaf.name];
  }
}

class TinfoilV2Commitment implements Commitment {
  readonly gpuBinding = "none";
  readonly keyScope = "machine";
  readonly cautions = ["nonce-not-carried", "measurements-not-compared"];

  /** Any nonce is refused, because REPORT_DATA has none. */
  construct({ reportData }: Presented, nonce: Bytes | undefined): Construction {
    return {
      comparisons: {
        nonce: nonce && (() => refuse("binding", "nonce-mismatch", nonce, "no nonce", { field: "REPORT_DATA" })),
      },
      keys: { tls_spki_sha256: reportData.slice(0, 32), hpke_public_key: reportData.slice(32) },
    };
  }
}

/** Read a document; `data` are the bytes that it was read from, over which hashes and signature are. */
export async function readTinfoil(document: JsonValue, data: Bytes): Promise<ProviderDocument> {
  const members = membersOf(document, "document");
  const form = textAt(members, "format", "");
  if (form === FORMAT_V3) return readV3(document, data);
  const media = FORMATS_V2.get(form) ?? unsupported("format", [FORMAT_V3, ...FORMATS_V2.keys()].join(" or "), form);
  const report = await unpacked(await base64At(members, "body", ""));
  const evidence = [itemOf("cpu", media, report)];
  return {
    label: "tinfoil attestation document, version 2 (JSON)",
    machines: [{ name: "0", role: "model", evidence, commitment: new TinfoilV2Commitment() }],
  };
}

async function readV3(document: JsonValue, data: Bytes): Promise<ProviderDocument> {
  const members = membersOf(document, "document");
  const stated = membersOf(members.report_data, "report_data");
  const cpu = membersOf(members.cpu, "cpu");
  const platform = textAt(cpu, "platform", "cpu");
  const media = PLATFORMS.get(platform) ?? unsupported("cpu.platform", [...PLATFORMS.keys()].join(" or "), platform);
  const { text, places } = rawMembers(data);
  const signature = await base64At(members, "signature", "");
  const [begin, end] = places.get("signature")!;
  const hexOf = (name: string): Bytes => hexAt(stated, name, "report_data", DIGEST_BYTES);
  const hashes = await Promise.all(
    HASHED.map(async (name) => {
      const place = given(members, name) ? places.get(name) : undefined;
      return {
        name,
        stated: optionalHexAt(stated, `${name}_evidence_hash`, "report_data", DIGEST_BYTES),
        found: place && (await sha256(utf8(text.slice(...place)))),
      };
    }),
  );
  const [leaf] = await certificatesAt(members, "certificate", "");
  const commitment = new TinfoilCommitment({
    tlsKeyFp: hexOf("tls_key_fp"),
    hpkeKey: hexOf("hpke_key"),
    nonce: hexOf("nonce"),
    hashes,
    leaf: leaf!,
    signature,
    signed: utf8(`${text.slice(0, begin)}""${text.slice(end)}`.replace(/^[ \t\r\n]*/, "").trimEnd()),
  });
  const report = itemOf("cpu", media, await base64At(cpu, "report", "cpu"));
  const evidence = [report];
  for (const name of HASHED.filter((each) => given(members, each))) {
    for (const device of splitNvidiaJson(members[name]!)) evidence.push(numbered(device, evidence));
  }
  return {
    label: "tinfoil attestation document, version 3 (JSON)",
    machines: [
      {
        name: "0",
        role: evidence.length > 1 ? "model" : "router",
        evidence,
        commitment,
      },
    ],
  };
}

/** The content of one whole gzip stream, of a limited size. */
async function unpacked(body: Bytes): Promise<Bytes> {
  const parts: Bytes[] = [];
  let size = 0;
  try {
    const reader = new Blob([body]).stream().pipeThrough(new DecompressionStream("gzip")).getReader();
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      parts.push(part.value);
      size += part.value.length;
      if (size > MAX_REPORT_BYTES) {
        await reader.cancel();
        break;
      }
    }
  } catch {
    // No gzip stream, one that is cut, or bytes behind it.
    size = Infinity;
  }
  demand(size <= MAX_REPORT_BYTES, "body", `one gzip stream of at most ${MAX_REPORT_BYTES} bytes, whole and alone`);
  return concat(...parts);
}
