/** One upload as it is shown: its state, how far it is, and a button that cancels it. */

import { timeText } from "./amounts";
import { type Data, showEnd } from "./delivery";
import { el } from "./dom";
import { textOf } from "./events";
import type { Problem } from "./problems";
import { sizeText } from "./sizes";
import { say } from "./strings";

/** What goes on, and since when: the time that is left follows from it. */
interface Stage {
  readonly name: "bytes" | "pages" | "passages";
  readonly since: number;
  readonly from: number;
}

export class UploadRow {
  /** To which key it was sealed. */
  readonly key = el("small");
  readonly place: HTMLElement;
  private readonly status = el("span");
  /** Changes several times a second, and is not read aloud. */
  private readonly far = el("span", { "aria-live": "off" });
  private readonly bar: HTMLProgressElement;
  private readonly button: HTMLButtonElement;
  private stage: Stage | undefined;

  constructor(
    name: string,
    private readonly bytes: number,
    cancel: () => void,
  ) {
    const { progress, upload } = say();
    this.bar = el("progress", { "aria-label": progress(name), hidden: true });
    const label = { "aria-label": upload.cancelNamed(name) };
    this.button = el("button", { type: "button", class: "plain", click: cancel, ...label }, upload.cancel);
    const line = el("p", {}, el("bdi", {}, name), ": ", this.status, this.far);
    this.place = el("li", { tabindex: "-1" }, line, this.button, this.bar, this.key);
  }

  /** Show a state in which nothing moves. */
  says(text: string): void {
    this.rest();
    if (this.status.textContent !== text) this.status.textContent = text;
  }

  sent(done: number, all: number): void {
    const { upload } = say();
    // What is sealed is a little longer than the file.
    const bytes = Math.round((this.bytes * done) / Math.max(1, all));
    this.moves("bytes", done, all, upload.sent(sizeText(bytes), sizeText(this.bytes)));
  }

  /** Show what the service does: it reads pages, then embeds passages, which takes nearly all of the time. */
  progress(data: Data): void {
    const { pageOf, passageOf } = say();
    const isEmbedding = textOf(data, "of_passages") !== "";
    const done = textOf(data, isEmbedding ? "passages" : "pages");
    const all = textOf(data, isEmbedding ? "of_passages" : "of");
    const text = isEmbedding ? passageOf(done, all) : pageOf(done, all);
    this.moves(isEmbedding ? "passages" : "pages", Number(done), Number(all), text);
  }

  /** Show why it is not sent at all. */
  refuses(why: string): void {
    this.ends(undefined, why);
    this.status.classList.add("refused");
  }

  /** Show how it ended; the button goes, and leaves the focus that it had to the row. */
  ends(problem: Problem | undefined, done: string): void {
    this.rest();
    showEnd(this.status, problem, done);
    const hadFocus = document.activeElement === this.button;
    this.button.remove();
    this.bar.remove();
    if (hadFocus) this.place.focus();
  }

  private rest(): void {
    this.bar.hidden = true;
    this.far.textContent = "";
    this.stage = undefined;
  }

  private moves(name: Stage["name"], done: number, all: number, text: string): void {
    const now = performance.now();
    if (this.stage?.name !== name) this.stage = { name, since: now, from: done };
    const { since, from } = this.stage;
    this.bar.hidden = false;
    if (all > 0) {
      this.bar.max = all;
      this.bar.value = done;
    }
    const perOne = done > from ? (now - since) / 1000 / (done - from) : 0;
    const left = perOne > 0 && done < all ? say().upload.left(timeText(perOne * (all - done))) : "";
    this.status.textContent = "";
    this.far.textContent = left ? `${text}, ${left}` : text;
  }
}
