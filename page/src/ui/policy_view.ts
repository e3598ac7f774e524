/** The policy in force: what it is called, who made it, its digest; saved, loaded and forgotten. */

import { completed, filesOf } from "../policy/kept";
import { consented } from "./confirm";
import { byId, download, el, put } from "./dom";
import { readPolicy } from "./judge";
import { authorOf, keepSource } from "./source";
import { say } from "./strings";
import type { Subject } from "./subject";
import { take, tell } from "./taking";
import { part } from "../verifier/parts";

let shown = "";

export function showPolicy({ state, memory }: Subject): void {
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

export function startPolicy(subject: Subject): void {
  const { memory } = subject;
  const file = byId("load", HTMLInputElement);
  file.disabled = false;
  file.addEventListener("change", () => loadFrom(subject, [...(file.files ?? [])], () => (file.value = "")));
  byId("export").addEventListener("click", () =>
    filesOf(memory.get("policy") ?? "").forEach(({ name, part }) => download(name, part)),
  );
  const use = (name: string, text: string): void => {
    const kept = (): void => keepSource(memory, { by: "link", at: Date.now() });
    consented(subject, name, () => void take(subject, () => Promise.resolve(text), say().taken, kept));
  };
  byId("share").addEventListener("click", () => void links().then(async ({ share }) => share(subject)));
  byId("forget").addEventListener("click", () => {
    memory.set("source", undefined);
    void subject.accept(undefined).then(() => tell(say().forgotten));
  });
  if (location.hash.includes("policy=")) void links().then(async ({ offered }) => offered(use));
}

const links = async (): Promise<typeof import("./policy_links")> => part(import("./policy_links"));

/** Take a policy from files, once a person consents where that is needed. */
export function loadFrom(subject: Subject, chosen: readonly File[], done: () => void): void {
  const names = chosen.map(({ name }) => name).join(", ");
  if (!names) return;
  const policy = async (): Promise<string> => {
    const texts = await Promise.all(chosen.map((one) => one.text()));
    return readPolicy(completed(subject.memory.get("policy"), texts));
  };
  const kept = (): void => keepSource(subject.memory, { by: "file", at: Date.now(), names });
  consented(subject, names, () => void take(subject, policy, say().takenFrom(names), kept).finally(done));
}
