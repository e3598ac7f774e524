/** The policy in force: what it is called, who made it, its digest; and the controls that take another one. */

import { filesOf } from "../policy/kept";
import { byId, download, el, put } from "./dom";
import { authorOf } from "./source";
import { saySeen } from "./strings";
import type { Subject } from "./subject";

let shown = "";

export function showPolicy({ state, memory }: Subject): void {
  const { inForce } = saySeen();
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

type Action = (actions: typeof import("./policy_actions")) => unknown;

/** Listen to the controls; `run` runs an action, once it is fetched. */
export function startPolicy(subject: Subject, run: (action: Action) => unknown): void {
  const file = byId("load", HTMLInputElement);
  file.disabled = false;
  file.addEventListener("change", () => {
    const chosen = [...(file.files ?? [])];
    run(({ loadFrom }) => loadFrom(subject, chosen, () => (file.value = "")));
  });
  byId("export").addEventListener("click", () =>
    filesOf(subject.memory.get("policy") ?? "").forEach(({ name, part }) => download(name, part)),
  );
  byId("share").addEventListener("click", () => run(async ({ share }) => share(subject)));
  byId("forget").addEventListener("click", () => run(async ({ forget }) => forget(subject)));
  if (location.hash.includes("policy=")) run(async ({ takeOffered }) => takeOffered(subject));
}
