/** One request, sealed, and its answer, opened. Fetched before the first of them. */

import { type Bytes, concat, utf8 } from "../verifier/bytes";
import { need } from "../verifier/errors";
import { AES_256_GCM, KDF_SHA256, be2 } from "./algorithms";
import { type Fields, REQUEST_END, type ResponseHead, requestHead, responseOf, writtenContent } from "./bhttp";
import { opened, sealed } from "./chunks";
import { cursorOf } from "./cursor";
import { type CountedAead, KEY_BYTES, type Context, aeadOf, contextOf, encapsulate, expand, extract } from "./hpke";
import { OPTIONS, type Way, piecesOf, truncated } from "./offer";
import type { ChannelRecord } from "./record";
import type { ChannelAnswer, ChannelRequest } from "./request";

const GATEWAY_PATH = "/.well-known/ohttp-gateway";
const REQUEST_TYPE = "message/ohttp-chunked-req";
const ANSWER_TYPE = "message/ohttp-chunked-res";

/** The message to send, and its record. */
interface Sending {
  readonly record: ChannelRecord;
  readonly request: ChannelRequest;
  readonly date: number;
  /** Lets the record go, of which the gateway says that it is not its own. */
  readonly doubt: () => void;
}

/** Seal a request under a record, send it, and open the head of its answer. */
export async function sendSealed(
  gateway: string,
  way: Way,
  { record, request, date, doubt }: Sending,
): Promise<ChannelAnswer> {
  const { body, context, enc } = await sealRequest(record, way.authority, request, date);
  const headers = { "content-type": REQUEST_TYPE, incremental: "?1" };
  const carrier = request.carrier ?? way.fetch;
  const answer = await carrier(`${gateway}${GATEWAY_PATH}`, { ...OPTIONS, method: "POST", headers, body });
  requireAnswer(answer, doubt);
  const events = openAnswer(answer, context, enc);
  const head = (await events.next()).value;
  // The head comes first, or a refusal.
  return {
    ...(head as ResponseHead),
    content: events as AsyncGenerator<Bytes, void, void>,
    key: { id: record.key.keyId, digest: record.digest },
  };
}
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
