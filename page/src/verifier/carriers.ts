/** Extensions of certificates that carry evidence. */

export const DICE_EVIDENCE = "2.23.133.5.4.9";
export const RA_TLS_QUOTE = "1.2.840.113741.1337.6";
export const DSTACK_QUOTE = "1.3.6.1.4.1.62397.1.1";

/** Of forms that are recognised and not verified: Open Enclave's, and the conceptual message wrapper. */
export const UNSUPPORTED_CARRIERS: readonly string[] = [
  "1.2.840.113556.10.1.1",
  "1.2.840.113556.10.1.2",
  "1.3.6.1.4.1.311.105.1",
  "1.3.6.1.4.1.311.105.2",
  "1.3.6.1.5.5.7.1.35",
];

const CARRIERS: readonly string[] = [DICE_EVIDENCE, RA_TLS_QUOTE, DSTACK_QUOTE, ...UNSUPPORTED_CARRIERS];

/** True if a certificate has an extension for evidence, of a form that is read or not. */
export const carriesEvidence = ({
  extensions,
}: {
  readonly extensions: readonly { readonly oid: string }[];
}): boolean => extensions.some(({ oid }) => CARRIERS.includes(oid));
