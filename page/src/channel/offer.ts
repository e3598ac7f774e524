/** The offer of a service: its keys, with evidence that commits to them. Nothing is sent to it but a nonce. */

import { type Bytes, base64urlText, hex } from "../verifier/bytes";
import { base64urlBytes } from "../verifier/encoding";
import type { BindingExpectation, Result } from "../verifier/api";
import { need, refuse } from "../verifier/errors";
import { cursorOf } from "./cursor";
import { type KeyConfig, documentDigest, parseKeyDocument } from "./keys";

const OFFER_PATH = "/.well-known/attest-channel";
const MAX_OFFER_BYTES = 4 * 1024 * 1024;
export const OPTIONS = {
  cache: "no-store",
  credentials: "omit",
  redirect: "error",
  referrerPolicy: "no-referrer",
} as const;

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

export const truncated = (): never => refuse("verification", "channel-truncated");

/** The bytes of a body; Safari's streams are no iterators. */
export async function* piecesOf(answer: Response): AsyncGenerator<Bytes, void, void> {
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
