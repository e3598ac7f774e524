/** Bundles of Sigstore with the provenance of one document, as `attest/provenance`: verified under what is given. */

import { type Bytes, concat, hex, utf8 } from "../bytes";
import { schemeHolds } from "../crypto";
import { ecdsaRaw } from "../der";
import { need, refuse } from "../errors";
import {
  type Bundle,
  type Envelope,
  OLDEST_BUNDLE,
  bytesOf,
  readBundle,
  readTrustedRoot,
  requireReadable,
} from "./forms";
import { requireLogged, requireSameContent } from "./log";
import { holding, requireHolding } from "./refusals";
import { type Signer, requireCertificate, requireSigner } from "./signer";
import { type Statement, parseStatement } from "./statement";

const STATEMENT = "application/vnd.in-toto+json";
const LAST_SECOND = 253_402_300_799n;

export interface Demands extends Signer {
  /** SHA-256 of the documents, hex, of which one has to be the subject. */
  readonly subjects: readonly string[];
  /** Certificate authorities and logs: Sigstore's `TrustedRoot` as JSON. */
  readonly trustedRoot: Bytes | undefined;
}

/** Provenance whose bundle holds, the demanded signer, and the entry of the log. */
export interface Provenance extends Statement, Signer {
  /** Id of the log, hex. */
  readonly log: string;
  readonly index: number;
  /** Milliseconds. */
  readonly time: number;
}

/** Verify a bundle: the codes of `attest references verify`. */
export async function verifyProvenance(data: Bytes, demands: Demands): Promise<Provenance> {
  const { identity, issuer, subjects } = demands;
  need(identity && issuer, "malformed", "provenance-signer-empty", "an identity and an issuer", "an empty text");
  const bundle = await readBundle(data);
  const { entry } = bundle;
  const envelope = supported(bundle);
  const time = timeOf(bundle);
  const payload = await verified(bundle, envelope, demands, time);
  const statement = parseStatement(payload);
  need(subjects.includes(statement.subject), "binding", "provenance-subject-mismatch", subjects, statement.subject, {
    field: "subject.0.digest.sha256",
  });
  return { ...statement, identity, issuer, log: hex(bytesOf(entry.logId.keyId)), index: Number(entry.logIndex), time };
}

const unsupported = (got: string): never =>
  refuse(
    "unsupported",
    "provenance-unsupported",
    "a bundle of version 0.2 or 0.3 with an entry of a Rekor v1 log",
    got,
  );

/** Return the envelope of a bundle of a kind that is verified. */
function supported({ mediaType, envelope, entry }: Bundle): Envelope {
  const { kind, version } = entry.kindVersion;
  if (mediaType === OLDEST_BUNDLE) unsupported(mediaType);
  if (!envelope) return unsupported("a bundle without a DSSE envelope");
  requireReadable(envelope.signatures.length === 1, `${envelope.signatures.length} signatures`);
  if (kind !== "dsse" || version !== "0.0.1") unsupported(`a log entry of kind ${kind} ${version}`.slice(0, 200));
  return envelope;
}

/** Return the time of the entry, which the log's promise signs; it is a claim until the promise is verified. */
function timeOf({ entry }: Bundle): number {
  const seconds = BigInt(entry.integratedTime ?? 0);
  if (!seconds || !entry.inclusionPromise) unsupported("a log entry without a signed time");
  requireReadable(seconds <= LAST_SECOND, "a time of the log that no calendar has");
  return Number(seconds) * 1000;
}

/** Verify everything except the statement, and return its bytes. */
async function verified(bundle: Bundle, envelope: Envelope, demands: Demands, time: number): Promise<Bytes> {
  const { leaf, entry } = bundle;
  const root = await readTrustedRoot(demands.trustedRoot, time);
  const payload = bytesOf(envelope.payload);
  await holding(async () => {
    await requireCertificate(leaf, root, time);
    requireSigner(leaf, demands);
    await requireLogged(entry, root.logs);
    const signature = bytesOf(envelope.signatures[0]!.sig);
    const signed = concat(
      utf8(`DSSEv1 ${Array.from(envelope.payloadType).length} ${envelope.payloadType} ${payload.length} `),
      payload,
    );
    const holds = await schemeHolds("ECDSA", leaf.spki, "SHA-256", signature, signed, ecdsaRaw);
    requireHolding(holds, "the signature of the envelope does not hold");
    await requireSameContent(entry, envelope, leaf);
  });
  if (envelope.payloadType !== STATEMENT) unsupported(envelope.payloadType.slice(0, 80));
  return payload;
}
