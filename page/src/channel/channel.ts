/**
 * Encrypted requests to a service that proved itself (docs/channel.md): ask, judge, hold a record, seal to nothing
 * else.
 *
 *     const offer = await askForKeys(gateway, way)       nothing is sent but a nonce
 *     channel.hold(recordOf(offer, appraisal.affirmed))  refuses to exist unless everything holds
 *     const answer = await channel.send({ … })           names the key that it went to
 */

import { need } from "../verifier/errors";
import { part } from "../verifier/parts";
import type { Fields } from "./bhttp";
import type { Way } from "./offer";
import type { ChannelRecord } from "./record";
import type { ChannelAnswer, ChannelRequest } from "./request";

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
    const { sendSealed } = await part(import("./sending"));
    const record = this.current();
    need(record, "verification", "channel-record-expired", "verified keys that are current", "none");
    return sendSealed(this.gateway, this.way, { record, request, date, doubt: () => this.hold(undefined) });
  }
}

const field = (fields: Fields, name: string): string | undefined => fields.find(([found]) => found === name)?.[1];
