/** Provenance of documents of reference values: bundles of Sigstore beside a policy, under the signer beside them. */

import { hex, utf8 } from "../verifier/bytes";
import { sha256 } from "../verifier/crypto";
import { refuse } from "../verifier/errors";
import { type Provenance, verifyProvenance } from "../verifier/provenance/provenance";
import { choice, parsed, record, text } from "./decode";
import { SIGNER, isBundle, isSigner, isTrustedRoot } from "./kept";

/** Provenance that holds, and the SHA-256 of the trusted root under which it does. */
export interface Built extends Provenance {
  readonly root: string;
}

const signerOf = record({ schema: choice([SIGNER]), identity: text, issuer: text });

/** The only file of a kind; undefined if there is none. */
function onlyOne(files: readonly string[], field: string): string | undefined {
  if (files.length > 1) refuse("malformed", "references-collide", `one ${field}`, files.length, { field });
  return files[0];
}

/**
 * Verify each bundle, and return what they state by the SHA-256 of the document: the codes of `attest references
 * verify`. Without a trusted root or a signer beside it, a bundle is refused.
 *
 * @param subjects SHA-256 of the documents, hex
 */
export async function provenanceOf(
  files: readonly string[],
  subjects: readonly string[],
): Promise<ReadonlyMap<string, Built>> {
  const found = new Map<string, Built>();
  const bundles = files.filter(isBundle);
  if (!bundles.length) return found;
  const root = onlyOne(files.filter(isTrustedRoot), "trusted root");
  const demanded = onlyOne(files.filter(isSigner), "signer");
  const signer = demanded === undefined ? { identity: "", issuer: "" } : signerOf(await parsed(demanded), "", "");
  const trustedRoot = root === undefined ? undefined : utf8(root);
  for (const bundle of bundles) {
    const built = await verifyProvenance(utf8(bundle), { ...signer, subjects, trustedRoot });
    found.set(built.subject, { ...built, root: hex(await sha256(trustedRoot!)) });
  }
  return found;
}
