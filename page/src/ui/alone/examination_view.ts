/** The view of the page for files, and its controls. */

import { rfc3339 } from "../../verifier/bytes";
import { part } from "../../verifier/parts";
import { optionsOf } from "../../policy/kept";
import { showChain } from "../chain";
import { byId, el, put } from "../dom";
import { showPolicy, startPolicy } from "../policy_view";
import { showDecision } from "../decide";
import { showFound, showVerdict } from "../status";
import type { State } from "../state";
import { type Examination, commandOf, filesOf, used } from "./examination";
import { acceptable, showFiles, tellFiles } from "./files_view";
import { linkOf, momentOf, namedIn } from "./links";
import { type Chosen, chosenOf } from "./sorting";
import { words } from "./words";

const NONCE = /^(?:[0-9a-f]{2}){1,64}$/i;

/** The parts that show what was found and take what a person decides, which both pages have. */
async function partsOfBoth() {
  const [checks, decision, failure, policy, { adoptLaterStyle }] = await part(
    Promise.all([
      import("../checks"),
      import("../trust"),
      import("../failure"),
      import("../policy_actions"),
      import("../later_style"),
    ]),
  );
  adoptLaterStyle();
  return { checks, decision, failure, policy };
}

type Parts = Awaited<ReturnType<typeof partsOfBoth>>;

let parts: Parts | undefined;
let wasShown = false;

/** Show what is known of the files. */
export function show(examination: Examination): void {
  const { state, isReady } = examination;
  if (!parts) return;
  showFiles(examination, (file) => remove(examination, file));
  byId("status").hidden = !isReady;
  byId("bar").hidden = !isReady;
  for (const id of ["checked", "sharing", "comparing"]) byId(id).hidden = !isReady;
  showPolicy(examination);
  byId("shared-check").replaceChildren();
  if (!isReady) {
    byId("simulated").hidden = true;
    wasShown = false;
    return;
  }
  showState(state, parts);
  if (state.busy) return;
  showFound(state);
  parts.checks.showChecks(state);
  showChain(byId("chain"), state);
  const { confirmAll, showRows } = parts.decision;
  showDecision(examination, () => confirmAll(examination));
  showRows(examination);
  byId("command").textContent = commandOf(examination, optionsOf(examination.memory.get("policy") ?? ""));
  void part(import("./compare_view"))
    .then(async ({ showComparison }) => showComparison(examination))
    .catch(() => undefined);
  if (!wasShown) byId("status").scrollIntoView({ block: "nearest" });
  wasShown = true;
}

function showState(state: State, { failure }: Parts): void {
  const { judgedAt, instead } = words();
  const isStale = state.result?.outcome === "verified" && state.result.freshness !== "matched";
  showVerdict(state, state.phase === "refused" ? failure.whyRefused(state) : "", isStale ? instead.unfresh : "");
  byId("bar").hidden = false;
  byId("when").textContent = state.at === undefined ? "" : judgedAt(rfc3339(state.at));
  failure.showFailure(state, false);
}

// -- files

async function add(examination: Examination, files: readonly File[]): Promise<void> {
  const { added, link } = words();
  const chosen = await Promise.all(files.map(chosenOf));
  const policies = filesOf(chosen, "policy").map(({ file }) => file);
  const [taken, told] = acceptable(
    examination,
    chosen.filter(({ kind }) => kind !== "policy"),
  );
  examination.files = [...examination.files, ...taken];
  tellFiles([...told, added(taken.length + policies.length)].join(" "));
  if (!policies.length) {
    await examination.check();
    return;
  }
  show(examination);
  parts?.policy.loadFrom(examination, policies, () => {
    const { named, state, hasNamedPolicy } = examination;
    if (named && !hasNamedPolicy) tellFiles(link.otherPolicy(state.policy?.digest ?? ""));
  });
}

function remove(examination: Examination, file: Chosen): void {
  examination.files = examination.files.filter((one) => one !== file);
  tellFiles(words().removed(file.name));
  byId("file").focus();
  void examination.check();
}

/** Take files from a field, and from what is dropped around it. */
function takeFrom(id: string, around: string, take: (files: readonly File[]) => Promise<void>): void {
  const field = byId(id, HTMLInputElement);
  const place = byId(around);
  field.disabled = false;
  field.addEventListener("change", () => {
    const files = [...(field.files ?? [])];
    void take(files).finally(() => (field.value = ""));
  });
  place.addEventListener("dragover", (event) => {
    event.preventDefault();
    place.classList.add("over");
  });
  place.addEventListener("dragleave", () => place.classList.remove("over"));
  place.addEventListener("drop", (event) => {
    event.preventDefault();
    place.classList.remove("over");
    void take([...(event.dataTransfer?.files ?? [])]);
  });
}

// -- the question to the evidence

function ask(examination: Examination): void {
  const { badNonce, badMoment, applied } = words();
  const nonce = byId("nonce", HTMLInputElement).value.replaceAll(/\s+/g, "").replace(/^0x/, "").toLowerCase();
  const written = byId("at", HTMLInputElement).value.trim();
  const at = written ? momentOf(written) : undefined;
  const told = byId("asked-told");
  if (nonce && !NONCE.test(nonce)) {
    told.textContent = badNonce;
    byId("nonce").focus();
    return;
  }
  if (written && at === undefined) {
    told.textContent = badMoment;
    byId("at").focus();
    return;
  }
  const recorded = byId("recorded", HTMLInputElement).checked;
  examination.question = { nonce: nonce || undefined, recorded, at };
  void examination.check().then(() => (told.textContent = applied));
}

// -- links

function share({ state, files }: Examination): void {
  const { link } = words();
  const place = byId("shared-check");
  if (state.at === undefined) return;
  const digests = used(files).map(({ sha256 }) => sha256);
  const here = location.href.replace(/#.*$/, "");
  const address = linkOf(here, { files: digests, policy: state.policy?.digest, at: state.at });
  const field = el("input", { id: "check-link", readonly: true, value: address, "aria-label": link.title });
  put(place, el("p", {}, link.why), field);
  field.focus();
  field.select();
}

function openLink(examination: Examination): void {
  const named = namedIn(location.hash);
  if (named === undefined) return;
  if (named === "broken") {
    history.replaceState(undefined, "", location.pathname + location.search);
    tellFiles(words().link.broken);
    return;
  }
  examination.named = named;
  examination.question = { ...examination.question, at: named.at };
  byId("at", HTMLInputElement).value = rfc3339(named.at);
}

export async function start(examination: Examination): Promise<void> {
  const fetched = await partsOfBoth();
  parts = fetched;
  takeFrom("file", "drop", async (files) => add(examination, files));
  takeFrom("other", "other-drop", async (files) => {
    const { compareWith } = await part(import("./compare_view"));
    await compareWith(examination, files);
  });
  byId("asked").addEventListener("submit", (event) => {
    event.preventDefault();
    ask(examination);
  });
  byId("make-link").addEventListener("click", () => share(examination));
  startPolicy(examination, (run) => run(fetched.policy));
  openLink(examination);
  await examination.check();
}
