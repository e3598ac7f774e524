/**
 * Offline bundles: what vendors say, in one file (canonical CBOR). Everything in a bundle is signed by its vendor, so it can
 * lie about nothing; it can withhold, and therefore it ends at a stated moment.
 *
 *     bundle = {"format": "attest.endorsements/1", "created": text, "expires": text,
 *               "entries": [{"kind": text, "source": text, "data": bytes}, …]}
 *     signed = {"bundle": bytes of the above, "signatures": […]}
 *
 * NOTE: who put a bundle together is not judged here: the vendors' signatures and the dates decide.
 */

// As each format's, so that what is shared is one file.
import "./api";
import { type Bytes, hex, latin1, rfc3339 } from "./bytes";
import { type CborValue, cborBytes, cborValue, isMap } from "./cbor";
import { parseCrl } from "./crl";
import { fail } from "./errors";
import { gpuFormat, intelFormat } from "./lazy";
import { readPemBlocks } from "./pem";
import { type Found, nothingFound } from "./pool";
import { type Certificate, parseCertificate } from "./x509";

const FORMAT = "attest.endorsements/1";
const [MAX_BUNDLE_BYTES, MAX_ENTRIES, MAX_SIGNATURES, MAX_SOURCE, MAX_CHAIN] = [16 * 1024 * 1024, 8192, 16, 2048, 8];
const KINDS = ["amd-vcek", "amd-chain", "amd-crl", "intel-tcb-info", "intel-qe-identity", "intel-crl", "nvidia-rim", "nvidia-ocsp"];

function malformed(field: string, expected: string, got = "something else"): never {
  return fail("endorsement", "bundle-malformed", "", { field, expected, got });
}

/**
 * Add what a bundle holds. Of one that must not be used at this moment the lists and answers alone stay, as out of date:
 * what they revoke stays revoked, what they do not proves nothing.
 */
export async function readBundle(data: Bytes, found: Found, at: number): Promise<void> {
  const { created, expires, content } = await parseBundle(data);
  if (created <= at && at < expires) {
    for (const name of Object.keys(found) as (keyof Found)[]) found[name].push(...(content[name] as never[]));
    return;
  }
  // In front, where a current one of the same bytes takes their place.
  found.crls.unshift(...content.crls.map((crl) => ({ ...crl, nextUpdate: crl.thisUpdate })));
  found.ocsp.unshift(...content.ocsp.map((answer) => ({ ...answer, ends: answer.thisUpdate })));
}

async function parseBundle(data: Bytes): Promise<{ created: number; expires: number; content: Found }> {
  if (data.length > MAX_BUNDLE_BYTES) malformed("bundle", `at most ${MAX_BUNDLE_BYTES} bytes`, `${data.length} bytes`);
  const outer = cborValue(data, "bundle");
  if (!isMap(outer) || !outer.has("bundle")) return parseInner(outer);
  const signed = members(outer, ["bundle", "signatures"], "signed bundle");
  requireSignatures(signed.signatures);
  return parseInner(cborValue(bytes(signed.bundle, "bundle"), "bundle"));
}

async function parseInner(value: CborValue): Promise<{ created: number; expires: number; content: Found }> {
  const inner = members(value, ["format", "created", "expires", "entries"], "bundle");
  if (inner.format !== FORMAT) malformed("format", FORMAT);
  const [created, expires] = [moment(inner.created, "created"), moment(inner.expires, "expires")];
  if (created >= expires) malformed("expires", `later than ${rfc3339(created)}`);
  const entries = array(inner.entries, "entries", MAX_ENTRIES);
  const content = nothingFound();
  const seen = new Set<string>();
  for (const [i, entry] of entries.entries()) {
    const { kind, source, data } = members(entry, ["kind", "source", "data"], `entries[${i}]`);
    if (typeof kind !== "string" || !KINDS.includes(kind)) malformed(`entries[${i}].kind`, KINDS.join(" or "));
    if (typeof source !== "string" || source.length > MAX_SOURCE || /[^ -~]/.test(source)) malformed(`entries[${i}].source`, "printable text");
    const spelled = hex(cborBytes(entry));
    if (seen.has(spelled)) malformed("entries", "no entry twice");
    seen.add(spelled);
    await addContent(kind as string, bytes(data, `entries[${i}].data`), content);
  }
  return { created, expires, content };
}

/** Read what an entry holds: exactly what its kind says, and nothing beside it. */
async function addContent(kind: string, data: Bytes, content: Found): Promise<void> {
  if (kind === "amd-vcek") content.certificates.push(parseCertificate(data));
  else if (kind === "amd-chain") content.certificates.push(...chain(data));
  else if (kind === "amd-crl") content.crls.push(parseCrl(data));
  else if (kind === "nvidia-rim") content.rims.push(await (await gpuFormat()).readRimAnswer(data));
  else if (kind === "nvidia-ocsp") content.ocsp.push((await gpuFormat()).parseOcsp(data));
  else {
    const { answer, issuer_chain: issuers } = members(cborValue(data, "answer"), ["answer", "issuer_chain"], "answer");
    const [body, pem] = [bytes(answer, "answer"), bytes(issuers, "issuer_chain")];
    if (pem.length) content.certificates.push(...chain(pem));
    if (kind === "intel-crl") content.crls.push(parseCrl(body));
    else {
      const document = (await intelFormat()).parsePcsAnswer(body);
      if (!pem.length || `intel-${document.kind}` !== kind) malformed("answer", `${kind} with its issuers`);
      content.documents.push(document);
    }
  }
}

function chain(pem: Bytes): Certificate[] {
  const blocks = readPemBlocks(latin1(pem));
  const whole = blocks.length > 0 && blocks.length <= MAX_CHAIN && blocks.every(({ label }) => label === "CERTIFICATE");
  if (!whole) malformed("chain", `1 to ${MAX_CHAIN} PEM certificates`, `${blocks.length} PEM blocks`);
  return blocks.map(({ content }) => parseCertificate(content));
}

/** Signatures are of the form that a reader with keys would judge, in the order of key ids, no key twice. */
function requireSignatures(value: CborValue | undefined): void {
  const ids = array(value, "signatures", MAX_SIGNATURES).map((record, i) => {
    const { algorithm, key_id: id, signature } = members(record, ["algorithm", "key_id", "signature"], `signatures[${i}]`);
    if (algorithm !== "Ed25519" || bytes(signature, "signature").length !== 64 || bytes(id, "key_id").length !== 32) malformed("signatures", "Ed25519");
    return hex(bytes(id, "key_id"));
  });
  if ([...new Set(ids)].sort().join() !== ids.join()) malformed("signatures", "in the order of key ids, no key twice");
}

function members(value: CborValue | undefined, names: readonly string[], field: string): Readonly<Record<string, CborValue>> {
  const fits = isMap(value) && value.size === names.length && names.every((name) => value.has(name));
  return fits ? Object.fromEntries(value) : malformed(field, `a map of ${names.join(", ")}`);
}

function array(value: CborValue | undefined, field: string, limit: number): readonly CborValue[] {
  return Array.isArray(value) && value.length && value.length <= limit ? value : malformed(field, `an array of 1 to ${limit}`);
}

function bytes(value: CborValue | undefined, field: string): Bytes {
  return value instanceof Uint8Array ? (value as Bytes) : malformed(field, "a byte string");
}

/** A moment in the one spelling that writing it again gives; years are 0001 to 9999. */
function moment(value: CborValue | undefined, field: string): number {
  const ms = typeof value === "string" && /^(?!0000)\d/.test(value) ? Date.parse(value) : Number.NaN;
  return Number.isFinite(ms) && rfc3339(ms) === value ? ms : malformed(field, "a moment in its one spelling");
}
