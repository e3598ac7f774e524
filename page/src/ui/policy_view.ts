/** The policy in force: what it is called, who made it, its digest; saved, shared as a link, loaded and forgotten. */

import { base64urlText } from "../verifier/bytes";
import { base64urlBytes } from "../verifier/encoding";
import { filesOf } from "../policy/kept";
import { askBack } from "./confirm";
import { byId, download, el, put } from "./dom";
import { isWary } from "./guard";
import { policyOf, readPolicy } from "./judge";
import type { Session } from "./session";
import { authorOf, keepSource } from "./source";
import { say } from "./strings";
import { take, tell } from "./taking";

const MOST_CHARACTERS = 1_000_000;

let shown = "";

export function showPolicy({ state, memory }: Session): void {
  const { inForce } = say();
  const { policy } = state;
  const isKept = memory.get("policy") !== undefined;
  for (const id of ["export", "forget", "share"]) byId(id).toggleAttribute("disabled", !isKept);
  const told = JSON.stringify([policy, isKept, authorOf(memory)]);
  if (shown === told) return;
  shown = told;
  byId("shared").replaceChildren();
  if (!policy || !isKept) {
    put(byId("policy-shown"), el("p", {}, inForce.none));
    return;
  }
  const rows = [
    [inForce.name, policy.name],
    [inForce.version, `${policy.version}`],
    [inForce.author, authorOf(memory)],
  ].flatMap(([name = "", value]) => [el("dt", {}, name), el("dd", {}, value)]);
  // In full: a person compares it with the author's value.
  const digest = [el("dt", {}, inForce.digest), el("dd", {}, el("code", {}, policy.digest))];
  put(byId("policy-shown"), el("dl", { class: "facts" }, ...rows, ...digest));
}

export function startPolicy(session: Session): void {
  const { memory } = session;
  const file = byId("load", HTMLInputElement);
  file.addEventListener("change", () => {
    const chosen = [...(file.files ?? [])];
    const names = chosen.map(({ name }) => name).join(", ");
    if (!names) return;
    const policy = async (): Promise<string> => readPolicy(await Promise.all(chosen.map((one) => one.text())));
    const kept = (): void => keepSource(memory, { by: "file", at: Date.now(), names });
    consented(session, names, () => {
      void take(session, policy, say().takenFrom(names), kept).finally(() => (file.value = ""));
    });
  });
  byId("export").addEventListener("click", () =>
    filesOf(memory.get("policy") ?? "").forEach(({ name, part }) => download(name, part)),
  );
  byId("share").addEventListener("click", () => void share(session));
  byId("forget").addEventListener("click", () => {
    memory.set("source", undefined);
    void session.accept(undefined).then(() => tell(say().forgotten));
  });
  void offered(session);
}

/** From red back to green leads only the typed word, also with a policy from elsewhere. */
function consented(session: Session, what: string, done: () => void): void {
  const { confirm } = say();
  if (!isWary(session.memory)) done();
  else askBack(byId("shared"), [], { title: confirm.instead(what), yes: confirm.take, less: [], mustType: true, done });
}

// -- links

async function through(
  data: Blob | Uint8Array<ArrayBuffer>,
  way: ReadableWritablePair<Uint8Array, BufferSource>,
): Promise<ArrayBuffer> {
  return new Response(new Blob([data]).stream().pipeThrough(way)).arrayBuffer();
}

/** A link to this page with the policy behind its `#`, which browsers send to nobody. */
async function share(session: Session): Promise<void> {
  const { shared } = say();
  const text = session.memory.get("policy");
  const policy = await policyOf(text);
  if (text === undefined || !policy) return;
  const packed = await through(new Blob([text]), new CompressionStream("deflate-raw"));
  const address = new URL(location.href);
  address.hash = `policy=${base64urlText(new Uint8Array(packed))}&sha256=${policy.digest}`;
  const field = el("input", { id: "link", readonly: true, value: address.href, "aria-label": shared.title });
  const copy = el("button", { click: () => void copied(field, copy) }, shared.copy);
  put(byId("shared"), el("h3", {}, shared.title), el("p", {}, shared.why(policy.digest)), field, copy);
  field.focus();
  field.select();
}

async function copied(field: HTMLInputElement, button: HTMLElement): Promise<void> {
  field.select();
  await navigator.clipboard.writeText(field.value).then(
    () => (button.textContent = say().shared.copied),
    () => field.focus(),
  );
}

/** A policy that came with the address: it is shown with its digest, and counts only when it is taken. */
async function offered(session: Session): Promise<void> {
  const given = new URLSearchParams(location.hash.slice(1));
  const packed = given.get("policy");
  if (packed === null) return;
  history.replaceState(undefined, "", location.pathname + location.search);
  const { shared, taken } = say();
  const place = byId("offer");
  try {
    const text = await unpacked(packed);
    const policy = await policyOf(await readPolicy([text]));
    if (policy?.digest !== given.get("sha256")) throw new TypeError("another policy");
    const use = (): void => {
      place.replaceChildren();
      const kept = (): void => keepSource(session.memory, { by: "link", at: Date.now() });
      consented(session, policy.name, () => void take(session, () => Promise.resolve(text), taken, kept));
    };
    const title = el("p", { tabindex: "-1" }, shared.offer(policy.name, policy.version, policy.digest));
    const ignore = el("button", { click: () => place.replaceChildren() }, shared.ignore);
    put(place, title, el("button", { id: "use-link", click: use }, shared.use), ignore);
    title.focus();
  } catch {
    put(place, el("p", { class: "refused" }, shared.broken));
  }
}

async function unpacked(packed: string): Promise<string> {
  const bytes = base64urlBytes(packed, "link");
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return text;
    text += value;
    if (text.length > MOST_CHARACTERS) throw new TypeError("too long");
  }
}
