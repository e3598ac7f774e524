/**
 * One service, checked again and again: asks it for proof, judges, holds a key to seal to, and lets it go.
 *
 * Everything that is sent goes through `send`; nothing is while the machine is not what the person accepted.
 */

import {
  Channel,
  type ChannelAnswer,
  type ChannelRequest,
  KEM_HYBRID,
  KEM_X25519,
  type Offer,
  type Way,
  askForKeys,
  recordOf,
  spokenKems,
} from "../channel/index";
import type { Result, UncheckedReason } from "../verifier/api";
import { hex } from "../verifier/bytes";
import { AttestError, refusal } from "../verifier/errors";
import { verifyEvidence } from "../verifier/verify_evidence";
import { type Judgement, judge, policyOf } from "./judge";
import type { Memory } from "./memory";
import { BEGINNING, type Problem, type State, obstacle } from "./state";

const ANSWER_MS = 30_000;

/** Everything that is not pure. */
export interface Edge {
  readonly fetch: typeof fetch;
  readonly now: () => number;
  /** Is told every change. */
  readonly show: (state: State) => void;
}

/** Which service, and who says so. */
export interface Place {
  /** Its address, without a path. */
  readonly service: string;
  /** What it must be called; undefined: what it calls itself, until the person accepts that. */
  readonly name: string | undefined;
  /** Whether the page comes from the person's own computer. */
  readonly own: boolean;
}

export class Session {
  state = BEGINNING;
  /** Of the last proof, for download. */
  evidence: object | undefined;
  nonce = "";
  private running: Promise<void> | undefined;
  private sending = new AbortController();
  private readonly channel: Channel;
  private audience = "";

  constructor(
    readonly place: Place,
    readonly memory: Memory,
    private readonly edge: Edge,
  ) {
    this.channel = new Channel(place.service, this.way(), async () => {
      await this.check();
      return this.channel.current();
    });
  }

  /** Ask for proof and judge it; whoever calls meanwhile waits for the same. */
  check(): Promise<void> {
    this.running ??= this.once().finally(() => (this.running = undefined));
    return this.running;
  }

  /** Keep a policy, or none, and judge the machine by it. */
  async accept(policy: string | undefined): Promise<void> {
    await this.running;
    this.memory.set("policy", policy);
    this.memory.set("name", policy === undefined ? undefined : this.state.name);
    this.release({ phase: "checking" });
    await this.check();
  }

  /** Send one request, sealed to the machine, or refuse. With `anew` the machine is checked before. */
  async send(request: ChannelRequest, anew = false): Promise<ChannelAnswer> {
    if (anew || !this.channel.current()) await this.check();
    const why = obstacle(this.state);
    if (why) throw refusal("verification", "not-affirmed", "a machine that you accepted", why);
    const fields = [...(request.fields ?? []), ["authorization", `Bearer ${this.memory.token()}`] as const];
    try {
      return await this.channel.send({ ...request, fields });
    } catch (error) {
      // The key was lost, or the service says that it has another one: what was believed of it ends here.
      if (!this.channel.current()) void this.check();
      throw error;
    }
  }

  private way(): Way {
    const audience = (): string => this.audience;
    return {
      get audience() {
        return audience();
      },
      get authority() {
        return audience().split("/")[0] ?? "";
      },
      kems: spokenKems().includes(KEM_HYBRID) ? [KEM_HYBRID] : [KEM_X25519],
      fetch: (url, options) => {
        const ends = options?.method === "POST" ? this.sending.signal : AbortSignal.timeout(ANSWER_MS);
        return this.edge.fetch(url, { ...options, signal: ends });
      },
      now: this.edge.now,
      verify: async (evidence, binding, at) => {
        this.nonce = typeof binding.nonce === "string" ? binding.nonce : hex(binding.nonce);
        this.evidence = evidence;
        const policy = await policyOf(this.memory.get("policy"));
        // What the policy leaves unjudged and tolerates, and nothing else, may be missing or differ.
        return verified(evidence, {
          binding,
          at,
          unchecked: (policy?.unchecked ?? []) as readonly UncheckedReason[],
          tolerances: policy?.tolerances,
        });
      },
    };
  }

  private async once(): Promise<void> {
    this.change({ busy: true });
    try {
      const said = await this.ask();
      this.audience = this.place.name ?? this.memory.get("name") ?? said.name;
      this.change({ name: this.audience, ready: said.ready, service: said.text });
      const offer = await askForKeys(this.place.service, this.way());
      await this.judged(offer);
    } catch (error) {
      this.release({ phase: "stopped", problem: problemOf(error), rows: [], busy: false, at: this.edge.now() });
    }
  }

  private async judged(offer: Offer): Promise<void> {
    const { result, at } = offer;
    const seen = { result, simulated: result.simulated, at, busy: false };
    if (result.error) {
      this.release({ ...seen, phase: "stopped", problem: result.error, rows: [] });
      return;
    }
    const found: Judgement = await judge(result, this.memory.get("policy"), at);
    const { rows, policy, affirmed } = found;
    const judgedState = { ...seen, rows, policy, problem: undefined };
    if (!affirmed) {
      this.release({ ...judgedState, phase: policy ? "stopped" : "unknown" });
      return;
    }
    const kems = this.way().kems ?? [KEM_HYBRID];
    const record = await recordOf(offer, affirmed, kems);
    this.channel.hold(record);
    this.change({
      ...judgedState,
      phase: "trusted",
      key: { id: record.key.keyId, digest: record.digest, hybrid: record.key.kem === KEM_HYBRID },
    });
  }

  /** What the service says in the clear is anybody's word: it is shown, and asked for the name to check against. */
  private async ask(): Promise<{ readonly name: string; readonly ready: boolean; readonly text: string }> {
    const answer = await this.edge.fetch(`${this.place.service}/v1/state`, {
      cache: "no-store",
      credentials: "omit",
      redirect: "error",
      signal: AbortSignal.timeout(ANSWER_MS),
    });
    const { name, state, why } = (await answer.json()) as Partial<Record<string, unknown>>;
    const cause = why as { readonly detail?: unknown } | null | undefined;
    const text = [state, cause?.detail].filter((part) => typeof part === "string").join(", ");
    return {
      name: typeof name === "string" ? name.slice(0, 255) : "",
      ready: state === "ready",
      text: text.slice(0, 500),
    };
  }

  /** Let the key go at once, and what is on its way with it. */
  private release(change: Partial<State>): void {
    this.channel.hold(undefined);
    this.sending.abort();
    this.sending = new AbortController();
    this.change({ key: undefined, ...change });
  }

  private change(change: Partial<State>): void {
    this.state = { ...this.state, ...change };
    this.edge.show(this.state);
  }
}

/** Verify by the vendors' roots; only what the simulator signed is verified by its own, and says so ever after. */
async function verified(evidence: object, options: Parameters<typeof verifyEvidence>[1]): Promise<Result> {
  const found = await verifyEvidence(evidence, options);
  return found.error?.code === "simulated-root-refused"
    ? verifyEvidence(evidence, { ...options, anchors: "simulation" })
    : found;
}

/** What went wrong, in one line. */
export function problemLine(error: unknown): string {
  const { code, message } = problemOf(error);
  return `${message} [${code}]`;
}

export function problemOf(error: unknown): Problem {
  if (error instanceof AttestError) return error;
  if (!isSecureContext) {
    return { code: "webcrypto-missing", message: "Browsers check signatures only for pages that came by HTTPS" };
  }
  const { name } = error as Error;
  if (name === "TimeoutError") return { code: "service-too-slow", message: "The service does not answer in time" };
  if (name === "PartError") {
    return { code: "page-incomplete", message: "A part of this page could not be loaded; load the page again" };
  }
  if (name === "AbortError") return { code: "stopped", message: "Stopped, because the machine is not what it was" };
  if (error instanceof TypeError || error instanceof SyntaxError) {
    return { code: "service-unreachable", message: "The service cannot be reached, or its answer is unusable" };
  }
  return { code: "page-defect", message: "The check itself failed" };
}
