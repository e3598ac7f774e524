/** The PCK certificate: what Intel writes about a platform into the certificate of its provisioning key. */

import { type Bytes, equal } from "../bytes";
import { TAG, type Tlv, all, boolean, defect, integer, oid, onlyElement, reading } from "../der";
import { need } from "../errors";
import { type Certificate, extensionOf } from "../x509";

export const PCK_COMMON_NAME = "Intel SGX PCK Certificate";
const CA = /^Intel SGX PCK (Platform|Processor) CA$/;
const EXTENSION = "1.2.840.113741.1.13.1";

/**
 * A PCK certificate with its extension decoded, under the names of its claims; not trusted until its chain is verified.
 */
export interface PckCertificate {
  readonly certificate: Certificate;
  readonly ppid: Bytes;
  /** The 16 SVNs that TCB info counts; the components say the same. */
  readonly cpu_svn: Bytes;
  readonly pce_svn: number;
  readonly pce_id: Bytes;
  readonly fmspc: Bytes;
  readonly platform: {
    /** Intel's CA that issued it, by the issuer's CN: `platform` or `processor`. */
    readonly ca: string;
    /** This and the next three are absent where the certificate does not say (Processor CA). */
    readonly instance_id: Bytes | undefined;
    readonly dynamic_platform: boolean | undefined;
    readonly cached_keys: boolean | undefined;
    readonly smt_enabled: boolean | undefined;
  };
}

/**
 * Decode the SGX extension of a PCK certificate: `pck-malformed`, or `pck-name-unexpected` by the names.
 *
 * Members that are not known are ignored: Intel may add some.
 *
 * Spec: Intel SGX PCK certificate and CRL profile, 3.5; intel-tdx-sgx.md 6, T03.
 */
export function readPck(certificate: Certificate): PckCertificate {
  const extension = reading("pck", () => readExtension(certificate));
  const { name, commonName, issuerCommonName = "" } = certificate;
  const named = (holds: unknown, expected: string, got: string) =>
    need(holds, "chain", "pck-name-unexpected", expected, got, { field: "CN" });
  named(commonName === PCK_COMMON_NAME, PCK_COMMON_NAME, name);
  const ca = CA.exec(issuerCommonName)?.[1];
  named(ca, CA.source, issuerCommonName);
  return { certificate, ...extension, platform: { ca: ca!.toLowerCase(), ...extension.platform } };
}

function readExtension(certificate: Certificate) {
  const { value } = extensionOf(certificate, EXTENSION) ?? defect(EXTENSION);
  const top = members(onlyElement(value, TAG.sequence), EXTENSION);
  const tcb = members(top(2, TAG.sequence), `${EXTENSION}.2`);
  const configuration = top(7, TAG.sequence, true) as Tlv | undefined;
  const flags = configuration && members(configuration, `${EXTENSION}.7`);
  const flag = (number: number): boolean | undefined => {
    const found = flags?.(number, TAG.boolean, true);
    return found && boolean(found);
  };
  const cpu_svn = octets(tcb(18, TAG.octetString), 16);
  const components = Array.from(cpu_svn, (_, i) => small(tcb(i + 1, TAG.integer), 0xff));
  if (!equal(cpu_svn, Uint8Array.from(components))) defect("CPUSVN");
  // Standard, scalable, or scalable with integrity.
  if (octets(top(5, TAG.enumerated), 1)[0]! > 2) defect("SGX type");
  const instance = top(6, TAG.octetString, true) as Tlv | undefined;
  return {
    ppid: octets(top(1, TAG.octetString), 16),
    cpu_svn,
    pce_svn: small(tcb(17, TAG.integer), 0xffff),
    pce_id: octets(top(3, TAG.octetString), 2),
    fmspc: octets(top(4, TAG.octetString), 6),
    platform: {
      instance_id: instance && octets(instance, 16),
      dynamic_platform: flag(1),
      cached_keys: flag(2),
      smt_enabled: flag(3),
    },
  };
}

/** Read a SEQUENCE OF pairs of identifier and value, each once; members go by the last number of the identifier. */
function members({ body }: Tlv, owner: string): (number: number, tag: number, isOptional?: boolean) => Tlv {
  const found = new Map<string, Tlv>();
  all(body, (reader) => {
    const pair = reader.sequence();
    const identifier = oid(pair.next(TAG.oid));
    const value = pair.next();
    pair.end();
    if (found.has(identifier)) defect(identifier);
    found.set(identifier, value);
  });
  return (number, tag, isOptional) => {
    const member = found.get(`${owner}.${number}`);
    if (member ? member.tag !== tag : !isOptional) defect(`${owner}.${number}`);
    return member!;
  };
}

const octets = ({ body }: Tlv, size: number): Bytes => (body.length === size ? body : defect(`${body.length} bytes`));

function small(member: Tlv, most: number): number {
  const value = integer(member);
  return value >= 0n && value <= most ? Number(value) : defect(`${value}`);
}
