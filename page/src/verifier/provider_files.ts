/** Documents of services by their members, each family well formed or not. */

import { type JsonValue, isObject } from "./json";

const has = (document: JsonValue, ...names: readonly string[]): boolean =>
  isObject(document) && names.every((name) => name in document);

const someOf = (list: JsonValue | undefined, ...names: readonly string[]): boolean =>
  Array.isArray(list) && list.some((entry) => has(entry, ...names));

/** A gateway and the machines behind it. */
export const isGateway = (document: JsonValue): boolean => has(document, "gateway_attestation", "model_attestations");

/** One dstack machine, perhaps with copies of it and of others. */
export const isMachine = (document: JsonValue): boolean => has(document, "intel_quote", "signing_address");

/** The list of Chutes' instances that RedPill and NanoGPT answer. */
export const isChutesList = (document: JsonValue): boolean =>
  isObject(document) && document.attestation_type === "chutes" && "all_attestations" in document;

/** Chutes' answer with the quotes of instances. */
export const isChutesEvidence = (document: JsonValue): boolean =>
  isObject(document) &&
  Array.isArray(document.evidence) &&
  ("failed_instance_ids" in document || someOf(document.evidence, "quote", "gpu_evidence"));

export const isTinfoil = (document: JsonValue): boolean =>
  has(document, "format", "body") || has(document, "format", "report_data");

const FAMILIES = [isGateway, isMachine, isChutesList, isChutesEvidence, isTinfoil];

/** A document of any family. */
export const isProviderDocument = (document: JsonValue): boolean => FAMILIES.some((looks) => looks(document));

/** Chutes' answer with keys of instances and no evidence. */
export const isProviderKeys = (document: JsonValue): boolean =>
  isObject(document) && someOf(document.instances, "e2e_pubkey");
