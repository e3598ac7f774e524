/** The policy in force as a link, and one that came with the address. */

import { base64urlText } from "../verifier/bytes";
import { base64urlBytes } from "../verifier/encoding";
import { withoutProvenance } from "../policy/kept";
import { byId, el, put } from "./dom";
import { policyOf } from "./judge";
import { say } from "./strings";
import type { Subject } from "./subject";

const MOST_CHARACTERS = 1_000_000;

async function through(
  data: Blob | Uint8Array<ArrayBuffer>,
  way: ReadableWritablePair<Uint8Array, BufferSource>,
): Promise<ArrayBuffer> {
  return new Response(new Blob([data]).stream().pipeThrough(way)).arrayBuffer();
}

/** A link to this page with the policy behind its `#`, which browsers send to nobody. */
export async function share(subject: Subject): Promise<void> {
  const { shared } = say();
  const kept = subject.memory.get("policy");
  const text = kept === undefined ? undefined : withoutProvenance(kept);
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

/**
 * A policy that came with the address: it is shown with its digest, and counts only when it is taken.
 *
 * @param use takes the policy of this name and text
 */
export async function offered(use: (name: string, text: string) => void): Promise<void> {
  const given = new URLSearchParams(location.hash.slice(1));
  const packed = given.get("policy");
  if (packed === null) return;
  history.replaceState(undefined, "", location.pathname + location.search);
  const { shared } = say();
  const place = byId("offer");
  try {
    const text = withoutProvenance(await unpacked(packed));
    const policy = await policyOf(text);
    if (policy?.digest !== given.get("sha256")) throw new TypeError("another policy");
    const taken = (): void => {
      place.replaceChildren();
      use(policy.name, text);
    };
    const title = el("p", { tabindex: "-1" }, shared.offer(policy.name, policy.version, policy.digest));
    const ignore = el("button", { click: () => place.replaceChildren() }, shared.ignore);
    put(place, title, el("button", { id: "use-link", click: taken }, shared.use), ignore);
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
