/**
 * `<attestation-badge src="https://rag.example" policy="policy.json">`: the state of a service in other people's pages.
 *
 *     src       origin of the service; its evidence is asked across origins
 *     name      what its evidence must call it; what it calls itself unless said otherwise
 *     policy    address of a policy document (JSON), or several of it and the files that it needs; without one the
 *               badge never says more than "genuine"
 *     page      address of the page that shows everything; the service's own unless said otherwise
 *
 * Each check ends in the event `attestation`, whose detail is `{phase, simulated, code}`. Nothing is sent but a nonce.
 */

import { el, put } from "./ui/dom";
import { together } from "./policy/kept";
import { Memory } from "./ui/memory";
import { type Problem, problemOf } from "./ui/problems";
import { type Place, Session } from "./ui/session";
import { BEGINNING, type State } from "./ui/state";
import { symbolOf } from "./ui/symbols";
import { languageOf, say, sayFirst, speak, speakFirst } from "./ui/strings";
import { badgeWords } from "./ui/words";
import { joined, moment } from "./ui/moments";

const CHECK_MS = 60_000;
// The colour scheme is inherited: the badge looks as the page that it stands in, not as the operating system.
const STYLE = `
:host { display: inline-block; font: 1rem/1.5 system-ui, sans-serif }
details {
  border: 2px solid light-dark(#1d4ed8, #93c5fd); border-radius: .5rem; padding: .2rem .7rem; max-width: 30rem;
  background: Canvas; color: CanvasText; overflow-wrap: anywhere
}
details[data-phase=unknown] { border-color: light-dark(#b45309, #fcd34d) }
details[data-phase=trusted] { border-color: light-dark(#15803d, #86efac) }
details[data-phase=unreachable] { border: 2px dashed light-dark(#64748b, #94a3b8) }
details[data-phase=stopped] { border-color: CanvasText }
details[data-phase=refused] { border-color: light-dark(#dc2626, #fca5a5) }
details[data-simulated=true]:is([data-phase=trusted], [data-phase=unknown]) {
  border: 2px dashed light-dark(#7e22ce, #d8b4fe)
}
summary { cursor: pointer; font-weight: 600 }
p { margin: .4rem 0 }
a { color: inherit }
:focus-visible { outline: 3px solid; outline-offset: 2px }
`;

class AttestationBadge extends HTMLElement {
  static readonly observedAttributes = ["src", "name", "policy"];
  private readonly word = el("span", { role: "status" });
  private readonly detail = el("div");
  private readonly box = el("details", {}, el("summary", {}, this.word), this.detail);
  private timer: ReturnType<typeof setInterval> | undefined;
  private session: Session | undefined;

  constructor() {
    super();
    const root = this.attachShadow({ mode: "open" });
    const style = new CSSStyleSheet();
    style.replaceSync(STYLE);
    root.adoptedStyleSheets = [style];
    root.append(this.box);
  }

  connectedCallback(): void {
    void this.begin();
  }

  disconnectedCallback(): void {
    clearInterval(this.timer);
    this.session?.end();
  }

  attributeChangedCallback(): void {
    if (this.isConnected) void this.begin();
  }

  /** Begin anew: what was found of another service, or by another policy, does not count. */
  private async begin(): Promise<void> {
    clearInterval(this.timer);
    this.session?.end();
    this.session = undefined;
    const src = this.getAttribute("src");
    const policy = this.getAttribute("policy");
    let session: Session | undefined;
    const mine = setInterval(() => void session?.check(), CHECK_MS);
    this.timer = mine;
    try {
      const language = languageOf(navigator.languages);
      await Promise.all([speakFirst(language), speak(language)]);
      if (mine !== this.timer) return;
      this.show(BEGINNING, "");
      const place: Place = {
        service: new URL(src ?? "", location.href).origin,
        name: this.getAttribute("name") ?? undefined,
        own: true,
      };
      const memory = new Memory(place.service, undefined, (bytes) => crypto.getRandomValues(bytes));
      if (policy !== null) memory.set("policy", together(await Promise.all(policy.trim().split(/\s+/).map(textAt))));
      const show = (state: State): void => {
        if (mine === this.timer) this.show(state, place.service);
      };
      if (mine !== this.timer) return;
      session = new Session(place, memory, {
        fetch: (...given) => fetch(...given),
        now: () => Date.now(),
        later: (run, ms) => void setTimeout(run, ms),
        show,
      });
      this.session = session;
      await session.check();
    } catch (error) {
      const problem: Problem = isSecureContext ? { code: "badge-settings", message: "" } : problemOf(error);
      if (mine === this.timer) this.show({ ...BEGINNING, busy: false, phase: "refused", problem }, "");
    }
  }

  private show(state: State, service: string): void {
    const { phase, simulated, at, busy, problem } = state;
    const [word, why] = badgeWords(state);
    this.box.dataset.phase = phase;
    this.box.dataset.simulated = `${simulated}`;
    const told = `${symbolOf(state)} ${word}`;
    if (this.word.textContent !== told) this.word.textContent = told;
    if (busy) return;
    const page = this.getAttribute("page") ?? service;
    const { badge } = say();
    const { lastChecked } = sayFirst();
    put(
      this.detail,
      el("p", {}, why),
      el("p", {}, joined(state.name, at !== undefined && lastChecked(moment(at, at).split(",")[0] ?? ""))),
      /^https?:/.test(page) && el("p", {}, el("a", { href: page, rel: "noreferrer" }, badge.all)),
    );
    this.dispatchEvent(
      new CustomEvent("attestation", {
        detail: { phase, simulated, code: problem?.code },
        bubbles: true,
        composed: true,
      }),
    );
  }
}

async function textAt(address: string): Promise<string> {
  const answer = await fetch(address, { cache: "no-store", credentials: "omit" });
  if (!answer.ok) throw new TypeError(`status ${answer.status}`);
  return answer.text();
}

customElements.define("attestation-badge", AttestationBadge);
