/** A queue of uploads: one after the other, kept over outages, and none sent to a machine that is not accepted now. */

import { hex } from "../verifier/bytes";
import { carrierOf } from "./carrier";
import { type Data, deliver, post } from "./delivery";
import { limitsOf } from "./document_limits";
import { byId } from "./dom";
import { objection } from "./objections";
import { kindOf } from "./problem_kinds";
import type { Problem } from "./problems";
import type { Session } from "./session";
import { type Obstacle, obstacle } from "./state";
import { say } from "./strings";
import { UploadRow } from "./upload_row";

/** How often a document is tried again while the service has no time, with doubled pauses. */
const TRIES = 8;
const FIRST_PAUSE_SECONDS = 1;
const LONGEST_PAUSE_SECONDS = 30;

interface Upload {
  /** 16 random bytes in hex, the same at each try: the service stores a document once for each. */
  readonly id: string;
  readonly file: File;
  readonly row: UploadRow;
  readonly cancelled: AbortController;
  /** A part of it may have been sent. */
  wasSent: boolean;
}

/** True for a problem of the moment or of the machine, which says nothing of the document. */
function mayPass({ code, passing }: Problem): boolean {
  return (
    passing === true ||
    code === "channel-keys-refused" ||
    ["notAccepted", "aborted", "ended", "cut"].includes(kindOf(code))
  );
}

/** Why a document is kept and not sent. */
function keptWords(why: Obstacle): string {
  const { kept } = say().upload;
  return why === "refused" || why === "unknown" || why === "stopped" ? kept[why] : kept.silent;
}

export class UploadQueue {
  private readonly waiting: Upload[] = [];
  private running = false;
  private changed: () => void = () => undefined;

  /**
   * @param stored is given each document that the service has stored
   * @param unclear is told of one that was cancelled when it may have been stored
   */
  constructor(
    private readonly session: Session,
    private readonly stored: (document: Data) => void,
    private readonly unclear: () => void,
  ) {}

  get isBusy(): boolean {
    return this.running;
  }

  /** Take files; where no machine is accepted, none is kept for one. */
  take(files: readonly File[]): void {
    const why = obstacle(this.session.state);
    for (const file of files) {
      const cancelled = new AbortController();
      const row: UploadRow = new UploadRow(file.name, file.size, () => this.cancel(upload));
      const id = hex(crypto.getRandomValues(new Uint8Array(16)));
      const upload: Upload = { id, file, row, cancelled, wasSent: false };
      byId("uploads").append(row.place);
      if (why === "unknown" || why === "refused") {
        row.ends({ code: "not-affirmed", message: `the machine is ${why}` }, "");
        continue;
      }
      row.says(say().upload.queued);
      this.waiting.push(upload);
      void this.isOut(upload);
    }
    if (!this.running) void this.run();
  }

  /** Look again at what is known of the machine. */
  wake(): void {
    this.changed();
  }

  private cancel(upload: Upload): void {
    const { cancelledBefore, cancelledOnItsWay } = say().upload;
    upload.cancelled.abort();
    upload.row.ends(undefined, upload.wasSent ? cancelledOnItsWay : cancelledBefore);
    this.changed();
    if (upload.wasSent) this.unclear();
  }

  private async run(): Promise<void> {
    this.running = true;
    for (let next = this.waiting.shift(); next; next = this.waiting.shift()) await this.deliver(next);
    this.running = false;
  }

  private async deliver(upload: Upload): Promise<void> {
    const { row, cancelled } = upload;
    const isOver = (): boolean => cancelled.signal.aborted;
    for (let tries = 0; !isOver(); tries++) {
      if (await this.isOut(upload)) return;
      row.says(say().uploading);
      const problem = await this.attempt(upload);
      if (isOver()) return;
      if (!problem || !mayPass(problem) || tries === TRIES) {
        row.ends(problem, say().stored);
        return;
      }
      if (await this.wasShut(upload)) tries = -1;
      else await this.pause(upload, FIRST_PAUSE_SECONDS * 2 ** tries);
    }
  }

  /** Whether it is cancelled, or does not fit what the service takes, which is said at once. */
  private async isOut({ cancelled, file, row }: Upload): Promise<boolean> {
    const why = await objection(file, limitsOf(this.session.state.limits));
    if (why !== undefined && !cancelled.signal.aborted) {
      cancelled.abort();
      row.refuses(why);
    }
    return cancelled.signal.aborted;
  }

  private async attempt(upload: Upload): Promise<Problem | undefined> {
    const { id, file, row, cancelled } = upload;
    const carrier = carrierOf((sent, all) => row.sent(sent, all), cancelled.signal);
    const type = /^[\w!#$&^.+-]+\/[\w!#$&^.+-]+$/.test(file.type) ? file.type : "application/octet-stream";
    const request = {
      ...post(`/v1/documents?name=${encodeURIComponent(file.name)}&id=${id}`, type, file),
      carrier: async (...given: Parameters<typeof fetch>) => {
        upload.wasSent = true;
        return carrier(...given);
      },
    };
    const shows = {
      progress: (data: Data) => row.progress(data),
      stored: ({ document }: Data) => this.stored((document ?? {}) as Data),
    };
    // Before each document the machine is checked.
    return deliver(this.session, { request, anew: true, last: "stored", shows, key: row.key });
  }

  /** Wait while nothing may be sent, for as long as it takes: the session looks again by itself. */
  private async wasShut({ row, cancelled }: Upload): Promise<boolean> {
    let why = obstacle(this.session.state);
    const isShut = why !== undefined;
    while (why && !cancelled.signal.aborted) {
      row.says(keptWords(why));
      await new Promise<void>((resolve) => (this.changed = resolve));
      why = obstacle(this.session.state);
    }
    return isShut;
  }

  private async pause({ row, cancelled }: Upload, doubled: number): Promise<void> {
    const seconds = Math.min(LONGEST_PAUSE_SECONDS, doubled);
    row.says(say().waiting(seconds));
    await new Promise<void>((resolve) => {
      setTimeout(resolve, 1000 * seconds);
      cancelled.signal.addEventListener("abort", () => resolve(), { once: true });
    });
  }
}
