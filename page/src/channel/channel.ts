/**
 * Encrypted requests to a service that proved itself (docs/channel.md): ask, judge, hold a record, seal to nothing
 * else.
 *
 *     const offer = await askForKeys(gateway, way)       nothing is sent but a nonce
 *     channel.hold(recordOf(offer, appraisal.affirmed))  refuses to exist unless everything holds
 *     const answer = await channel.send({ … })           names the key that it went to
 */

import { type Bytes, base64urlText, concat, hex, unhex, utf8 } from "../verifier/bytes";
import { base64urlBytes } from "../verifier/encoding";
import type { BindingExpectation, Result } from "../verifier/api";
import { sha256 } from "../verifier/crypto";
import { AttestError, need, refuse } from "../verifier/errors";
import { type Fields, REQUEST_END, type ResponseHead, requestHead, responseOf, writtenContent } from "./bhttp";
import { opened, sealed } from "./chunks";
import { cursorOf } from "./cursor";
import {
  AES_256_GCM,
  type CountedAead,
  KDF_SHA256,
  KEM_HYBRID,
  KEY_BYTES,
  type Context,
  aeadOf,
  be2,
  contextOf,
  encapsulate,
  expand,
  extract,
  spokenKems,
} from "./hpke";
import { type KeyConfig, chooseKey, documentDigest, parseKeyDocument } from "./keys";

const GATEWAY_PATH = "/.well-known/ohttp-gateway";
const OFFER_PATH = "/.well-known/attest-channel";
const REQUEST_TYPE = "message/ohttp-chunked-req";
const ANSWER_TYPE = "message/ohttp-chunked-res";
const MAX_OFFER_BYTES = 4 * 1024 * 1024;
const RECORD_MS = 5 * 60 * 1000;
const OPTIONS = { cache: "no-store", credentials: "omit", redirect: "error", referrerPolicy: "no-referrer" } as const;

/** Everything that is not pure is given. */
export interface Way {
  /** The service's name, which its evidence must carry. */
  readonly audience: string;
  /** Host and port that requests are for; the gateway refuses any other. */
  readonly authority: string;
  readonly fetch: typeof fetch;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  /** Verifies evidence (`verifyEvidence`, with endorsements and anchors chosen), bound as it says. */
  readonly verify: (evidence: object, binding: BindingExpectation, at: number) => Promise<Result>;
  /** KEMs that are acceptable; the hybrid alone unless said otherwise. */
  readonly kems?: readonly number[];
}

/** Answer of a service, verified but not yet appraised by a policy. */
export interface Offer {
  readonly result: Result;
  /** As received, for download. */
  readonly evidence: object;
  readonly keys: readonly KeyConfig[];
  /** SHA-256 of the key document under its label: what the evidence commits to. */
  readonly digest: string;
  readonly at: number;
}

/** Ask a service for its keys and evidence under a fresh nonce, and verify them; nothing else is sent. */
export async function askForKeys(gateway: string, way: Way): Promise<Offer> {
  const nonce = crypto.getRandomValues(new Uint8Array(32));
  const at = way.now();
  const answer = await way.fetch(`${gateway}${OFFER_PATH}?nonce=${base64urlText(nonce)}`, OPTIONS);
  need(answer.status === 200, "verification", "channel-refused", "status 200", `status ${answer.status}`);
  const { evidence, keys } = await offerOf(answer);
  const document = base64urlBytes(keys, "keys");
  const digest = await documentDigest(document);
  // The binding names the purpose, this service, this nonce and this very document: nothing else can be under the
  // report.
  const binding = { context: "channel/v1", role: "service", audience: way.audience, nonce, key: digest };
  const result = await way.verify(evidence, binding, at);
  return { result, evidence, keys: parseKeyDocument(document), digest: hex(digest), at };
}

/** An offer within its limit, and of exactly these members. */
async function offerOf(answer: Response): Promise<{ evidence: object; keys: string }> {
  const pieces = piecesOf(answer);
  const whole = await cursorOf(pieces, truncated).rest(MAX_OFFER_BYTES);
  await pieces.return();
  need(whole.length <= MAX_OFFER_BYTES, "malformed", "channel-refused", `at most ${MAX_OFFER_BYTES} bytes`);
  try {
    const { evidence, keys, ...rest } = JSON.parse(new TextDecoder().decode(whole)) as Record<string, unknown>;
    if (typeof evidence === "object" && evidence && typeof keys === "string" && !Object.keys(rest).length) {
      return { evidence, keys };
    }
  } catch {
    // It is refused below.
  }
  return refuse("malformed", "wire-invalid", "exactly evidence and keys", "something else", { field: "key offer" });
}

/** A service that may be sealed to, for a while. */
export interface ChannelRecord {
  readonly key: KeyConfig;
  readonly digest: string;
  /** Record that a request names, so that the service knows which one its client relies on. */
  readonly proof: string;
  readonly begins: number;
  readonly ends: number;
}

/** Make the record of an offer: `not-affirmed` unless it was verified, is fresh, and the person's policy is met. */
export async function recordOf(
  offer: Offer,
  affirmed: boolean,
  kems: readonly number[] = [KEM_HYBRID],
): Promise<ChannelRecord> {
  const { result, digest, at } = offer;
  if (result.error) throw new AttestError("verification", result.error.code, result.error.message);
  const { outcome, freshness, evidence_digest: evidence } = result;
  need(
    outcome === "verified" && freshness === "matched" && affirmed && evidence,
    "verification",
    "not-affirmed",
    "a machine that meets the policy",
    outcome,
  );
  const key = chooseKey(offer.keys, kems, spokenKems());
  // Sealed to once, and thrown away: a browser that cannot says so now, and not when something was typed.
  await encapsulate(key.kem, key.publicKey);
  const proof = await sha256(concat(utf8("attest channel evidence v1\0"), unhex(evidence)));
  return { key, digest, proof: base64urlText(proof), begins: at, ends: at + RECORD_MS };
}

export interface ChannelRequest {
  readonly method: string;
  readonly path: string;
  /** Without `date` and `attest-evidence`, which are added. */
  readonly fields?: Fields;
  readonly content?: Blob | Bytes;
  /** Sends the sealed request in place of `Way.fetch`, whose options it is given: one that shows its progress. */
  readonly carrier?: typeof fetch;
}

export interface ChannelAnswer {
  readonly status: number;
  readonly fields: Fields;
  /** Authentic and in order; throws `channel-truncated` where it was cut. */
  readonly content: AsyncGenerator<Bytes, void, void>;
  /** The key that the request went to. */
  readonly key: { readonly id: number; readonly digest: string };
}

/** Requests to one service, each under a secret of its own. */
export class Channel {
  private record: ChannelRecord | undefined;

  /**
   * @param gateway address of the gateway, without its path
   * @param renew attests again, when the service reports inside the encryption that the client's record is stale;
   *   undefined where the machine is not trusted any more
   */
  constructor(
    private readonly gateway: string,
    private readonly way: Way,
    private readonly renew: () => Promise<ChannelRecord | undefined>,
  ) {}

  /** Hold a record from now on, or none. */
  hold(record: ChannelRecord | undefined): void {
    this.record = record;
  }

  /** Return what is held, while it counts. */
  current(): ChannelRecord | undefined {
    const now = this.way.now();
    if (this.record && !(this.record.begins <= now && now < this.record.ends)) this.record = undefined;
    return this.record;
  }

  /**
   * Send one request; twice only where the service says, inside the encryption, that it did not process it.
   *
   * Refuses with `channel-record-expired`, `channel-keys-refused`, `channel-refused`, `channel-not-opened` …
   */
  async send(request: ChannelRequest): Promise<ChannelAnswer> {
    const answer = await this.once(request, this.way.now());
    const code = field(answer.fields, "attest-refused");
    if (code === "evidence-stale") {
      await answer.content.return();
      this.record = undefined;
      this.record = await this.renew();
      return this.once(request, this.way.now());
    }
    const date = code === "date-refused" ? Date.parse(field(answer.fields, "date") ?? "") : Number.NaN;
    if (Number.isNaN(date)) return answer;
    await answer.content.return();
    return this.once(request, date);
  }

  private async once(request: ChannelRequest, date: number): Promise<ChannelAnswer> {
    const record = this.current();
    need(record, "verification", "channel-record-expired", "verified keys that are current", "none");
    const { body, context, enc } = await sealRequest(record, this.way.authority, request, date);
    const headers = { "content-type": REQUEST_TYPE, incremental: "?1" };
    const carrier = request.carrier ?? this.way.fetch;
    const answer = await carrier(`${this.gateway}${GATEWAY_PATH}`, {
      ...OPTIONS,
      method: "POST",
      headers,
      body,
    });
    requireAnswer(answer, () => this.hold(undefined));
    const events = openAnswer(answer, context, enc);
    const head = (await events.next()).value;
    // The head comes first, or a refusal.
    return {
      ...(head as ResponseHead),
      content: events as AsyncGenerator<Bytes, void, void>,
      key: { id: record.key.keyId, digest: record.digest },
    };
  }
}

const field = (fields: Fields, name: string): string | undefined => fields.find(([found]) => found === name)?.[1];

interface SealedRequest {
  readonly body: Blob;
  readonly context: Context;
  readonly enc: Bytes;
}

/** Seal a request whole: no answer is read before all of it is sent. */
async function sealRequest(
  { key, proof }: ChannelRecord,
  authority: string,
  request: ChannelRequest,
  date: number,
): Promise<SealedRequest> {
  const header = concat(Uint8Array.of(key.keyId), ...[key.kem, KDF_SHA256, AES_256_GCM].map(be2));
  const { shared, enc } = await encapsulate(key.kem, key.publicKey);
  const context = await contextOf(key.kem, shared, concat(utf8("message/bhttp chunked request\0"), header));
  const own: Fields = [
    ["date", new Date(date).toUTCString()],
    ["attest-evidence", proof],
  ];
  const head = requestHead(request.method, authority, request.path, [...(request.fields ?? []), ...own]);
  const parts: Bytes[] = [concat(header, enc)];
  for await (const chunk of sealed(context.aead, message(head, request.content))) parts.push(chunk);
  return { body: new Blob(parts), context, enc };
}

async function* message(head: Bytes, content: Blob | Bytes | undefined): AsyncGenerator<Bytes, void, void> {
  yield head;
  if (content instanceof Blob) {
    for await (const data of piecesOf(new Response(content))) yield writtenContent(data);
  } else if (content) yield writtenContent(content);
  yield REQUEST_END;
}

/** A refusal in the clear is unauthenticated: it is not shown, and never causes a retry. */
function requireAnswer({ status, headers }: Response, doubt: () => void): void {
  const type = headers.get("content-type")?.split(";")[0]?.trim().toLowerCase();
  if (status === 422) doubt();
  const code = status === 422 ? "channel-keys-refused" : "channel-refused";
  need(status === 200 && type === ANSWER_TYPE, "verification", code, `status 200, ${ANSWER_TYPE}`, `status ${status}`);
}

/** Open an answer as it arrives: the head, then the content. */
async function* openAnswer(
  answer: Response,
  context: Context,
  enc: Bytes,
): AsyncGenerator<ResponseHead | Bytes, void, void> {
  const pieces = piecesOf(answer);
  try {
    const arriving = cursorOf({ next: () => pieces.next().catch(brokenOff) }, truncated);
    const aead = await answerAead(context, enc, await arriving.take(KEY_BYTES));
    yield* responseOf(opened(aead, arriving));
  } finally {
    await pieces.return();
  }
}

const truncated = (): never => refuse("verification", "channel-truncated");

function brokenOff(error: Error): never {
  // Whoever broke it off knows why.
  if (error.name === "AbortError") throw error;
  return truncated();
}

/**
 * The answer's key comes from the request's context and a nonce that is drawn for each answer (RFC 9458, section 4.4).
 */
async function answerAead(context: Context, enc: Bytes, nonce: Bytes): Promise<CountedAead> {
  const secret = await context.export("message/bhttp chunked response", KEY_BYTES);
  const prk = await extract(concat(enc, nonce), secret);
  const [key, base] = await Promise.all([expand(prk, utf8("key"), KEY_BYTES), expand(prk, utf8("nonce"), 12)]);
  return aeadOf(key, base);
}

/** The bytes of a body; Safari's streams are no iterators. */
async function* piecesOf(answer: Response): AsyncGenerator<Bytes, void, void> {
  const reader = answer.body?.getReader();
  try {
    for (;;) {
      const next = await reader?.read();
      if (!next || next.done) return;
      yield next.value;
    }
  } finally {
    await reader?.cancel().catch(() => undefined);
  }
}
