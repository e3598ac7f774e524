/** The person's documents at the service: list, deletion, and access token. */

import { readToken, saveToken } from "./access_token";
import { dateText } from "./amounts";
import { askConsent } from "./consent";
import { type Data, exchange, showEnd } from "./delivery";
import { limitsOf } from "./document_limits";
import { documentPlace } from "./document_place";
import { byId, el, put } from "./dom";
import { textOf } from "./events";
import type { Session } from "./session";
import { sizeText } from "./sizes";
import { obstacle } from "./state";
import { say, saySeen } from "./strings";
import { UploadQueue } from "./uploads";

const PATH = "/v1/documents";
const MOST = 10_000;

class DocumentsPanel {
  readonly queue: UploadQueue;
  /** Undefined: not read yet. */
  private documents: readonly Data[] | undefined;
  private wasOpen = false;
  private reads = 0;
  private isReading = false;
  private readonly place = documentPlace();
  private readonly question = el("div");
  private readonly list = el("ul", { class: "stock" });
  private readonly again = this.button(say().stock.readAgain, () => void this.read());

  constructor(private readonly session: Session) {
    this.queue = new UploadQueue(
      session,
      (document) => this.add(document),
      () => void this.read(),
    );
    const { told, all, token } = this.place;
    told.after(this.question, this.list);
    all.after(this.again);
    all.addEventListener("click", () => this.askAll());
    token.append(...this.tokenParts());
    this.again.hidden = true;
    this.tell(saySeen().documentList.unread);
  }

  /** Show what is known of the machine; once something may be sent, the list is read anew. */
  update(): void {
    const { state, memory } = this.session;
    const isOpen = obstacle(state) === undefined;
    for (const button of byId("documents").querySelectorAll<HTMLElement>("button[data-sends]")) {
      button.toggleAttribute("disabled", !isOpen);
    }
    const opens = isOpen && !this.wasOpen;
    this.wasOpen = isOpen;
    this.queue.wake();
    if (!opens) return;
    // A browser without a token has no documents.
    if (memory.get("token") === undefined) this.show([]);
    else void this.read();
  }

  /** Add a stored document to the list. If the list is not loaded yet, load it again. */
  private add(document: Data): void {
    if (this.documents === undefined || this.isReading) void this.read();
    else this.show([...this.documents, document]);
  }

  private async read(): Promise<void> {
    const { reading, unreadable } = say().stock;
    const number = ++this.reads;
    this.isReading = true;
    if (this.documents === undefined) this.tell(reading);
    const { found, problem } = await exchange(this.session, { method: "GET", path: PATH });
    if (number !== this.reads) return;
    this.isReading = false;
    const documents = found?.documents;
    this.again.hidden = problem === undefined;
    if (Array.isArray(documents)) {
      this.show(documents.slice(0, MOST).filter((one): one is Data => typeof one === "object" && one !== null));
    } else if (problem) {
      showEnd(this.place.told, problem, "");
      this.place.told.prepend(`${unreadable} `);
    }
  }

  private show(documents: readonly Data[]): void {
    const { count } = say().stock;
    this.documents = documents;
    const most = limitsOf(this.session.state.limits).count;
    this.tell(
      documents.length ? count(documents.length, most === undefined ? "" : `${most}`) : saySeen().documentList.none,
    );
    this.place.all.hidden = documents.length === 0;
    put(this.list, ...documents.map((one) => this.row(one)));
    this.again.hidden = true;
    this.update();
  }

  private row(document: Data): HTMLElement {
    const { added, pages, remove, removeNamed } = say().stock;
    const name = textOf(document, "name");
    const count = Number(textOf(document, "pages"));
    const stored = textOf(document, "added");
    const facts = [
      count > 0 && pages(count),
      sizeText(Number(textOf(document, "size"))),
      dateText(stored) && el("time", { datetime: stored }, added(dateText(stored))),
    ].filter((one) => one !== false && one !== "");
    const parts = facts.flatMap((one, index) => (index ? [" · ", one] : [one]));
    const button = this.button(remove, () => this.askOne(document), removeNamed(name));
    return el("li", {}, el("div", {}, el("bdi", {}, name), el("small", {}, ...parts)), button);
  }

  /** A button that sends something to the machine. */
  private button(text: string, click: () => void, label?: string): HTMLButtonElement {
    const disabled = obstacle(this.session.state) !== undefined;
    return el("button", { type: "button", "data-sends": true, "aria-label": label, disabled, click }, text);
  }

  // -- deletion

  private askOne(document: Data): void {
    const { effect, yes, no, removeTitle, removed, gone } = say().stock;
    const name = textOf(document, "name");
    const path = `${PATH}/${encodeURIComponent(textOf(document, "id"))}`;
    const done = (): void => void this.remove(path, removed(name), gone(name));
    askConsent(this.question, { title: removeTitle(name), effect, yes, no, done });
  }

  private askAll(): void {
    const { effect, yes, no, removeAllTitle, removedAll } = say().stock;
    const done = (): void => void this.remove(PATH, removedAll, removedAll);
    askConsent(this.question, { title: removeAllTitle(this.documents?.length ?? 0), effect, yes, no, done });
  }

  private async remove(path: string, done: string, gone: string): Promise<void> {
    this.place.title.focus();
    const { problem } = await exchange(this.session, { method: "DELETE", path });
    const isGone = problem?.code === "rag-document-unknown";
    if (problem && !isGone) {
      showEnd(this.place.told, problem, "");
      return;
    }
    await this.read();
    this.place.told.prepend(`${isGone ? gone : done} `);
  }

  // -- the token

  private tokenParts(): HTMLElement[] {
    const { why, save, load, saved, none } = say().stock.token;
    const told = el("p", { role: "status", id: "token-told" });
    const question = el("div");
    const tell = (text: string): void => void (told.textContent = text);
    const file: HTMLInputElement = el("input", {
      id: "token-file",
      type: "file",
      accept: ".json,application/json",
      change: () => {
        const [chosen] = file.files ?? [];
        if (chosen) void this.load(chosen, question, tell).finally(() => (file.value = ""));
      },
    });
    const saves = (): void => tell(saveToken(this.session) ? saved : none);
    return [
      el("p", {}, why),
      el("button", { type: "button", id: "token-save", click: saves }, save),
      el("label", { class: "button" }, el("span", {}, load), " ", file),
      question,
      told,
    ];
  }

  private async load(file: File, question: HTMLElement, tell: (text: string) => void): Promise<void> {
    const { busy, elsewhere, invalid, loaded, replace, replaceTitle, replaceYes, same } = say().stock.token;
    const { memory, place } = this.session;
    const read = await readToken(file, place.service);
    const present = memory.get("token");
    const use = (token: string): void => {
      memory.set("token", token);
      this.documents = undefined;
      this.list.replaceChildren();
      tell(loaded);
      if (this.wasOpen) void this.read();
    };
    if (this.queue.isBusy) tell(busy);
    else if (!read) tell(invalid);
    else if ("elsewhere" in read) tell(elsewhere(read.elsewhere));
    else if (present === read.token) tell(same);
    else if (present === undefined) use(read.token);
    else {
      tell("");
      const done = (): void => use(read.token);
      askConsent(question, { title: replaceTitle, effect: replace, yes: replaceYes, no: say().stock.no, done });
    }
  }

  private tell(text: string): void {
    const { told } = this.place;
    told.classList.remove("refused");
    if (told.textContent !== text) told.textContent = text;
  }
}

let panel: DocumentsPanel | undefined;

const panelOf = (session: Session): DocumentsPanel => (panel ??= new DocumentsPanel(session));

export function showDocuments(session: Session): void {
  panelOf(session).update();
}

/** Send files that were chosen or dropped. */
export function take(session: Session, files: readonly File[]): void {
  panelOf(session).queue.take(files);
}
