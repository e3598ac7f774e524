/** The machines of one document, each with its evidence and the keys that are stated beside it. */

import type { Bytes } from "../bytes";
import type { ClaimTree } from "../claims";
import type { Evidence } from "../envelope";
import { type Told, same } from "../procedure";

export type Role = "gateway" | "model" | "router";
/** The tie between the CPU and the GPUs: an equal nonce, a nonce that REPORT_DATA fixes, a hash of their evidence. */
export type GpuBinding = "nonce" | "report-data" | "hash" | "none";
/** `app`: a key service gives the key to every machine of the application. */
export type KeyScope = "app" | "machine";
export type StepName = "nonce" | "binding" | "keys" | "gpus" | "statements" | "envelope";
/** The comparison of one step, with its facts. */
export type Comparison = () => Told | Promise<Told>;

export const MAX_MACHINES = 16;
export const MAX_NAME_CHARACTERS = 48;

/** The parts of a machine's evidence that commit to others, read and not verified. */
export interface Presented {
  readonly reportData: Bytes;
  /** The signed part of the CPU's report: its signature, and bytes behind it, can be changed by anyone. */
  readonly cpu: Bytes;
  /** Of each GPU and switch; the key is that of its device certificate. */
  readonly devices: readonly { readonly name: string; readonly nonce: Bytes; readonly key: Bytes | undefined }[];
  /** The report without its report data, and the key that signed it: two quotes of one machine agree in both. */
  readonly machine: string;
  readonly witness: Presented | undefined;
}

/** A machine's statements beside the evidence that commits to them. */
export interface Construction {
  readonly comparisons: Partial<Record<StepName, Comparison | undefined>>;
  /** Keys that REPORT_DATA commits to, once the comparisons hold. */
  readonly keys: ClaimTree;
  readonly claims?: ClaimTree;
}

/** The statements about one machine, of one family of documents. */
export interface Commitment {
  readonly gpuBinding: GpuBinding;
  readonly keyScope: KeyScope;
  readonly cautions: readonly string[];
  construct(presented: Presented, nonce: Bytes | undefined): Construction;
}

/** One machine; nothing of it is trusted. */
export interface Machine {
  readonly name: string;
  /** By its place in the document; nothing signed says it. */
  readonly role: Role;
  readonly evidence: Evidence;
  readonly commitment: Commitment;
  /** A second report of the same machine for another purpose. */
  readonly witness?: Evidence | undefined;
}

export interface ProviderDocument {
  readonly label: string;
  readonly machines: readonly Machine[];
  readonly cautions?: readonly string[];
}

/** True if REPORT_DATA commits to any key. */
export const isBound = (keys: ClaimTree): boolean => Object.values(keys).some((key) => key !== undefined);

// -- comparisons

/** Require every GPU and switch to answer the nonce that the CPU's report fixes. */
export function requireGpuNonces({ devices }: Presented, wanted: Bytes): Told {
  for (const { name, nonce } of devices) same("provider-gpu-nonce-mismatch", `${name}: nonce`, wanted, nonce);
  return [wanted, devices.length ? `${devices.length} devices carry it` : "no device"];
}
