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
import { hex } from "../verifier/bytes";
import { refusal } from "../verifier/errors";
import { type Judgement, judge, policyOf, verified } from "./judge";
import type { Memory } from "./memory";
import { type Problem, passing, problemOf, requireTime } from "./problems";
import { BEGINNING, type State, obstacle } from "./state";

const ANSWER_MS = 30_000;
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 60_000;

/** Everything that is not pure. */
export interface Edge {
  readonly fetch: typeof fetch;
  readonly now: () => number;
  /** Runs something later. */
  readonly later: (run: () => void, ms: number) => void;
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

/** What a service says of itself in the clear. */
interface Said {
  readonly name: string;
  readonly ready: boolean;
  /** It has no keys, or has them no more. */
  readonly isOver: boolean;
  readonly text: string;
  readonly limits: unknown;
}

export class Session {
  state = BEGINNING;
  /** Of the last proof, for download. */
  evidence: object | undefined;
  nonce = "";
  /** Something was sent to the machine. */
  hasSent = false;
  private running: Promise<void> | undefined;
  private sending = new AbortController();
  private readonly channel: Channel;
  private audience = "";
  private failures = 0;
  private isWaiting = false;
  private ended = false;

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

  /** Look whether the service still does its work, and check the machine where that has changed. */
  async poll(): Promise<void> {
    const { phase, ready } = this.state;
    if (this.running ?? phase === "checking") return;
    const said = await this.ask().catch(() => undefined);
    if (said?.ready !== ready) await this.check();
  }

  /** Check no more. */
  end(): void {
    this.ended = true;
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
    const { phase, problem } = this.state;
    if (phase === "unreachable" && problem) throw passing(problem);
    const why = obstacle(this.state);
    if (why) throw refusal("verification", "not-affirmed", "a machine that you accepted", why);
    const fields = [...(request.fields ?? []), ["authorization", `Bearer ${this.memory.token()}`] as const];
    try {
      this.hasSent = true;
      return await this.channel.send({ ...request, ...this.carried(request), fields });
    } catch (error) {
      // The key was lost, or the service says that it has another one: what was believed of it ends here.
      if (!this.channel.current()) void this.check();
      throw error;
    }
  }

  private carried({ carrier }: ChannelRequest): Pick<ChannelRequest, "carrier"> {
    return carrier ? { carrier: this.fetching(carrier) } : {};
  }

  /** Fetch with an end: what is sent ends with the key that it is sealed to. */
  private fetching(send: typeof fetch): typeof fetch {
    return async (url, options) => {
      const ends = options?.method === "POST" ? this.sending.signal : AbortSignal.timeout(ANSWER_MS);
      const answer = await send(url, { ...options, signal: ends });
      requireTime(answer);
      return answer;
    };
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
      fetch: this.fetching(this.edge.fetch),
      now: this.edge.now,
      verify: async (evidence, binding, at) => {
        this.nonce = typeof binding.nonce === "string" ? binding.nonce : hex(binding.nonce);
        this.evidence = evidence;
        return verified(evidence, { binding, at }, await policyOf(this.memory.get("policy")));
      },
    };
  }

  private async once(): Promise<void> {
    this.change({ busy: true });
    let said: Said | undefined;
    try {
      said = await this.ask();
      this.audience = this.place.name ?? this.memory.get("name") ?? said.name;
      this.change({ name: this.audience, ready: said.ready, service: said.text, limits: said.limits });
      const offer = await askForKeys(this.place.service, this.way());
      this.failures = 0;
      await this.judged(offer, said);
    } catch (error) {
      const problem = problemOf(error);
      if (!problem.passing) this.failed({ phase: "refused", problem, result: undefined });
      else if (said?.isOver) this.failed({ phase: "stopped", problem: undefined });
      else this.waitFor(problem);
    }
  }

  private failed(change: Partial<State>): void {
    this.release({ rows: [], busy: false, at: this.edge.now(), ...change });
  }

  /** Nothing is concluded from no answer: what is on its way goes on, nothing new is sent, and the page asks again. */
  private waitFor(problem: Problem): void {
    this.change({ phase: "unreachable", problem, busy: false, key: undefined });
    if (this.isWaiting) return;
    this.isWaiting = true;
    const pause = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** this.failures);
    this.failures += 1;
    this.edge.later(() => {
      this.isWaiting = false;
      if (!this.ended && this.state.phase === "unreachable") void this.check();
    }, pause);
  }

  private async judged(offer: Offer, said: Said): Promise<void> {
    const { result, at } = offer;
    const seen = { result, simulated: result.simulated, at, busy: false };
    if (result.error) {
      this.release({ ...seen, phase: "refused", problem: result.error, rows: [] });
      return;
    }
    const found: Judgement = await judge(result, this.memory.get("policy"), at);
    const { rows, policy, affirmed } = found;
    const judgedState = { ...seen, rows, policy, problem: undefined };
    if (!affirmed) {
      this.release({ ...judgedState, phase: policy ? "refused" : "unknown" });
      return;
    }
    if (said.isOver) {
      this.release({ ...judgedState, phase: "stopped" });
      return;
    }
    if (!said.ready) {
      this.change(judgedState);
      this.waitFor({ code: "service-starting", message: said.text, passing: true });
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
  private async ask(): Promise<Said> {
    const answer = await this.edge.fetch(`${this.place.service}/v1/state`, {
      cache: "no-store",
      credentials: "omit",
      redirect: "error",
      signal: AbortSignal.timeout(ANSWER_MS),
    });
    requireTime(answer);
    const { name, state, why, limits } = (await answer.json()) as Partial<Record<string, unknown>>;
    const cause = why as { readonly detail?: unknown } | null | undefined;
    const text = [state, cause?.detail].filter((part) => typeof part === "string").join(", ");
    return {
      name: typeof name === "string" ? name.slice(0, 255) : "",
      ready: state === "ready",
      isOver: state === "stopped" || state === "locked",
      text: text.slice(0, 500),
      limits,
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
