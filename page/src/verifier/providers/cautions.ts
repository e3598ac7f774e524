/** Warnings of what a document does not prove (providers.md 6). */

import type { Caution } from "../api";
import type { Bytes } from "../bytes";
import { type Machine, type Presented, isBound } from "./document";

const MESSAGES: Readonly<Record<string, string>> = {
  "freshness-not-evaluated": "no nonce was given: the document may be of any age, even if it names a nonce",
  "nonce-not-carried": "this form of document carries no nonce: it may be of any age",
  "keys-not-bound":
    "without a nonce REPORT_DATA could not be computed: nothing shows that a key belongs to the machine; " +
    "do not encrypt to its keys, and verify with the nonce of your request",
  "tls-not-bound":
    "REPORT_DATA names no TLS key: TLS ends outside the machine, and only content that is encrypted to a " +
    "key in the claim binding is hidden from the service in between",
  "key-of-app":
    "a key service gives the signing key to every machine of the application: it does not identify this " +
    "machine, and stays the same after an update",
  "gpus-by-nonce":
    "only an equal nonce ties the GPUs to the CPU: GPUs of another machine that answer the same nonce " + "pass",
  "gpus-not-shown": "a machine that serves a model gave no evidence of a GPU",
  "switches-not-shown": "several GPUs were given without evidence of NVSwitches",
  "code-by-compose-hash":
    "the compose hash covers app-compose, but not the values of its environment, images without a digest, " +
    "or data that containers fetch",
  "code-reported": "the compose hash covers a manager; the list of containers that it started is its own statement",
  "code-not-shown":
    "the measurements have no published reference values: the operator of the machine decides which " + "software runs",
  "measurements-not-compared": "the measurements were not compared with the signed ones of a release",
  "weights-not-proven": "no measurement covers the weights of the model",
  "instances-without-evidence": "keys were given for instances without evidence: these instances are not verified",
  "never-proven":
    "a document of this kind does not prove the model's name, the physical place of a machine, an answer, or that " +
    "developer tools of the GPUs are off",
};

/** Warnings, each once, with the machines that it is about where not all are. */
export function cautionsOf(
  codes: readonly string[],
  machines: readonly (readonly [Machine, Presented])[],
  nonce: Bytes | undefined,
): readonly Caution[] {
  const about = new Map<string, string[]>();
  for (const [machine, presented] of machines) {
    for (const code of ofMachine(machine, presented, nonce)) {
      about.set(code, [...(about.get(code) ?? []), machine.name]);
    }
  }
  const whole = [...(nonce ? [] : ["freshness-not-evaluated"]), ...codes];
  return [
    ...whole.map((code) => caution(code, [])),
    ...[...about].map(([code, names]) => caution(code, names.length < machines.length ? names : [])),
    caution("never-proven", []),
  ];
}

function ofMachine({ role, commitment }: Machine, presented: Presented, nonce: Bytes | undefined): readonly string[] {
  const { devices } = presented;
  const gpus = devices.filter(({ name }) => name.startsWith("gpu")).length;
  const switches = devices.length - gpus;
  return [
    ...(isBound(commitment.construct(presented, nonce).keys) ? [] : ["keys-not-bound"]),
    ...commitment.cautions,
    ...(devices.length && commitment.gpuBinding === "nonce" ? ["gpus-by-nonce"] : []),
    ...(!gpus && role === "model" ? ["gpus-not-shown"] : []),
    ...(gpus > 1 && !switches ? ["switches-not-shown"] : []),
  ];
}

function caution(code: string, names: readonly string[]): Caution {
  const where = names.length ? ` (machine ${names.join(", ")})` : "";
  return { code, message: `${MESSAGES[code] ?? code}${where}` };
}
