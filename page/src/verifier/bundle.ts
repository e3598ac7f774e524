/**
 * Offline bundles: what vendors say, in one file (canonical CBOR). Everything in a bundle is signed by its vendor, so
 * it can lie about nothing; it can withhold, and therefore it ends at a stated moment.
 *
 *     bundle = {"format": "attest.endorsements/1", "created": text, "expires": text,
 *               "entries": [{"kind": text, "source": text, "data": bytes}, …]}
 *     signed = {"bundle": bytes of the above, "signatures": […]}
 *
 * NOTE: who put a bundle together is not judged here: the vendors' signatures and the dates decide.
 */

import { type Bytes, hex, latin1, rfc3339 } from "./bytes";
import { type CborValue, cborBytes, cborValue, isMap } from "./cbor";
import { parseCrl } from "./crl";
import { need } from "./errors";
import { part } from "./parts";
import { readPemBlocks } from "./pem";
import { type Found, nothingFound } from "./pool";
import { type Certificate, parseCertificate } from "./x509";

const MAX_ENTRIES = 8192;
const MAX_SIGNATURES = 16;
const MAX_SOURCE = 2048;
const MAX_CHAIN = 8;

/** Whoever reads endorsements passes over what is refused: no word more is needed. */
function demand(holds: unknown): asserts holds {
  need(holds, "endorsement", "bundle-malformed");
}

/**
 * Add what a bundle holds. Of one that must not be used at this moment the lists and answers alone stay, as out of
 * date: what they revoke stays revoked, what they do not proves nothing.
 */
export async function readBundle(data: Bytes, found: Found, at: number): Promise<void> {
  let bundle = cborValue(data, "bundle");
  if (isMap(bundle) && bundle.has("bundle")) {
    const [signed, signatures] = members(bundle, "bundle", "signatures");
    requireSignatures(signatures);
    bundle = cborValue(bytes(signed), "bundle");
  }
  const [format, created, expires, entries] = members(bundle, "format", "created", "expires", "entries");
  const begins = moment(created);
  const ends = moment(expires);
  demand(format === "attest.endorsements/1" && begins < ends);
  const content = await contentOf(array(entries, MAX_ENTRIES));
  if (begins <= at && at < ends) {
    for (const name of Object.keys(found) as (keyof Found)[]) found[name].push(...(content[name] as never[]));
    return;
  }
  // In front, where a current one of the same bytes takes their place.
  found.crls.unshift(...content.crls.map((crl) => ({ ...crl, nextUpdate: crl.thisUpdate })));
  found.ocsp.unshift(...content.ocsp.map((answer) => ({ ...answer, ends: answer.thisUpdate })));
}

async function contentOf(entries: readonly CborValue[]): Promise<Found> {
  demand(new Set(entries.map((entry) => hex(cborBytes(entry)))).size === entries.length);
  const content = nothingFound();
  for (const entry of entries) {
    const [kind, source, data] = members(entry, "kind", "source", "data");
    demand(typeof source === "string" && source.length <= MAX_SOURCE && !/[^ -~]/.test(source));
    await addContent(kind, bytes(data), content);
  }
  return content;
}

/** The readers of what Intel and NVIDIA say, which a bundle for AMD's machines does not need. */
const readers = async (): Promise<typeof import("./vendor_documents")> => part(import("./vendor_documents"));

/** Read what an entry holds: exactly what its kind says, and nothing beside it. */
async function addContent(kind: CborValue | undefined, data: Bytes, content: Found): Promise<void> {
  if (kind === "amd-vcek") content.certificates.push(parseCertificate(data));
  else if (kind === "amd-chain") content.certificates.push(...chain(data));
  else if (kind === "amd-crl") content.crls.push(parseCrl(data));
  else if (kind === "nvidia-rim") content.rims.push(await (await readers()).readRimAnswer(data));
  else if (kind === "nvidia-ocsp") content.ocsp.push((await readers()).parseOcsp(data));
  else {
    const [answer, issuers] = members(cborValue(data, "answer"), "answer", "issuer_chain");
    const body = bytes(answer);
    const pem = bytes(issuers);
    if (pem.length) content.certificates.push(...chain(pem));
    if (kind === "intel-crl") content.crls.push(parseCrl(body));
    else {
      const document = (await readers()).parsePcsAnswer(body);
      demand(pem.length && `intel-${document.kind}` === kind);
      content.documents.push(document);
    }
  }
}

function chain(pem: Bytes): Certificate[] {
  const blocks = readPemBlocks(latin1(pem));
  demand(blocks.length && blocks.length <= MAX_CHAIN && blocks.every(({ label }) => label === "CERTIFICATE"));
  return blocks.map(({ content }) => parseCertificate(content));
}

/** Signatures are of the form that a reader with keys would judge, in the order of key ids, no key twice. */
function requireSignatures(value: CborValue | undefined): void {
  const ids = array(value, MAX_SIGNATURES).map((record) => {
    const [algorithm, id, signature] = members(record, "algorithm", "key_id", "signature");
    demand(algorithm === "Ed25519" && bytes(signature).length === 64 && bytes(id).length === 32);
    return hex(bytes(id));
  });
  demand([...new Set(ids)].sort().join() === ids.join());
}

/** The members of a map that has exactly these. */
function members(value: CborValue | undefined, ...names: readonly string[]): readonly (CborValue | undefined)[] {
  demand(isMap(value) && value.size === names.length && names.every((name) => value.has(name)));
  return names.map((name) => value.get(name));
}

function array(value: CborValue | undefined, limit: number): readonly CborValue[] {
  demand(Array.isArray(value) && value.length && value.length <= limit);
  return value as readonly CborValue[];
}

function bytes(value: CborValue | undefined): Bytes {
  demand(value instanceof Uint8Array);
  return value;
}

/** A moment in the one spelling that writing it again gives; years are 0001 to 9999. */
function moment(value: CborValue | undefined): number {
  const ms = typeof value === "string" && /^(?!0000)\d/.test(value) ? Date.parse(value) : Number.NaN;
  demand(Number.isFinite(ms) && rfc3339(ms) === value);
  return ms;
}
