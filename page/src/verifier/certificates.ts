/** The certificates on which a verified item rests, for people to look at; no verdict is made of them. */

import type { CertificateResult } from "./api";
import { base64Text, hex, rfc3339 } from "./bytes";
import { sha256 } from "./crypto";
import type { Certificate, Issuer } from "./x509";

/**
 * Show a chain, leaf first, which ends in a pinned root; one whose key is held, and which came as no certificate, is a
 * name and a key.
 */
export async function shownChain(item: string, chain: readonly (Issuer | Certificate)[]): Promise<CertificateResult[]> {
  const keys = await Promise.all(chain.map(async ({ spki }) => hex(await sha256(spki))));
  return Promise.all(
    chain.map(async (each, i) => {
      const key = keys[i]!; // there is one for each
      const head = { item, subject: each.name, key_sha256: key, pinned: key === keys.at(-1) };
      return "der" in each ? { ...head, ...(await details(each)) } : head;
    }),
  );
}

async function details({
  der,
  issuerCommonName,
  serial,
  notBefore,
  notAfter,
}: Certificate): Promise<Partial<CertificateResult>> {
  return {
    issuer: issuerCommonName ?? "",
    serial: serial.toString(16),
    not_before: rfc3339(notBefore),
    // The last second that is named; the last moment of it counts too.
    not_after: rfc3339(notAfter - (notAfter % 1000)),
    sha256: hex(await sha256(der)),
    pem: `-----BEGIN CERTIFICATE-----\n${base64Text(der).replace(/.{1,64}/g, "$&\n")}-----END CERTIFICATE-----\n`,
  };
}
