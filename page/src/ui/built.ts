/** Documents whose build is proved, in the words of the page. Fetched when a policy comes with provenance. */

import type { Built } from "../policy/provenance";
import type { Voucher } from "../policy/reference_documents";
import { rfc3339 } from "../verifier/bytes";
import type { BuiltDocument } from "./state";
import { languageOf } from "./strings";
import { provenance as de } from "./strings/de/provenance";
import { type ProvenanceWords, provenance as en } from "./strings/en/provenance";
import { provenance as fr } from "./strings/fr/provenance";

const LANGUAGES: Readonly<Record<string, ProvenanceWords>> = { en, de, fr };

export function builtOf(vouchers: readonly Voucher[]): BuiltDocument[] {
  const words = LANGUAGES[languageOf(navigator.languages)]!; // there is one for each language
  return vouchers.flatMap(({ document, built }) => (built ? [told(document, built, words)] : []));
}

function told(document: string, built: Built, words: ProvenanceWords): BuiltDocument {
  const { repository = words.unstated, release, commit, builder, identity, issuer, log, index, time, root } = built;
  const moment = rfc3339(time).replace("T", " ").replace("Z", " UTC");
  const rows: readonly (readonly [string, string | undefined])[] = [
    [words.release, release],
    [words.commit, commit],
    [words.builder, builder],
    [words.workflow, identity],
    [words.issuer, issuer],
    [words.entry, `${index}, ${moment}`],
    [words.log, log],
    [words.root, root],
  ];
  return {
    sentence: words.sentence(document, repository, identity, index, moment),
    details: rows.flatMap(([name, value]) => (value === undefined ? [] : [[name, value] as const])),
  };
}
