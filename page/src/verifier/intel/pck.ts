/** The PCK certificate: what Intel writes about a platform into the certificate of its provisioning key. */

import { type Bytes, equal } from "../bytes";
import { all, boolean, DerReader, defect, integer, oid, onlyElement, reading, TAG, type Tlv } from "../der";
import { type Certificate, extensionOf } from "../x509";
import { refusal } from "./refusal";

export const PCK_COMMON_NAME = "Intel SGX PCK Certificate";
const CAS: Readonly<Record<string, "platform" | "processor">> = {
  "Intel SGX PCK Platform CA": "platform",
  "Intel SGX PCK Processor CA": "processor",
};
const EXTENSION = "1.2.840.113741.1.13.1";
const COMPONENTS = 16;

/** A PCK certificate with its extension decoded; not trusted until its chain is verified. */
export interface PckCertificate {
  readonly certificate: Certificate;
  /** Which of Intel's two CAs issued it, by the issuer's CN. */
  readonly ca: "platform" | "processor";
  readonly ppid: Bytes;
  /** The 16 SVNs that TCB info counts; the components say the same. */
  readonly cpuSvn: Bytes;
  readonly pceSvn: number;
  readonly pceId: Bytes;
  readonly fmspc: Bytes;
  /** This and the next three are null where the certificate does not say (Processor CA). */
  readonly platformInstanceId: Bytes | null;
  readonly dynamicPlatform: boolean | null;
  readonly cachedKeys: boolean | null;
  readonly smtEnabled: boolean | null;
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
  return { certificate, ...extension, ca: caOf(certificate) };
}

function caOf({ name, commonName, issuerCommonName = "a name without one CN" }: Certificate): "platform" | "processor" {
  if (commonName !== PCK_COMMON_NAME) throw misnamed("subject", PCK_COMMON_NAME, name);
  const ca = Object.hasOwn(CAS, issuerCommonName) ? CAS[issuerCommonName] : undefined;
  if (!ca) throw misnamed("issuer", Object.keys(CAS).join(" or "), issuerCommonName);
  return ca;
}

const misnamed = (whose: string, expected: string, got: string) =>
  refusal("chain", "pck-name-unexpected", `${whose} CN of the PCK certificate`, expected, got);

function readExtension(certificate: Certificate) {
  const extension = extensionOf(certificate, EXTENSION) ?? defect("no SGX extension");
  const found = new Members(onlyElement(extension.value), EXTENSION);
  const tcb = found.nested("2");
  const configuration = found.has("7") ? found.nested("7") : undefined;
  const cpuSvn = tcb.octets("18", 16);
  const components = Array.from({ length: COMPONENTS }, (_, i) => tcb.integer(`${i + 1}`, 0xff));
  if (!equal(cpuSvn, Uint8Array.from(components))) defect("CPUSVN differs from the components");
  found.requireSgxType("5");
  return {
    ppid: found.octets("1", 16),
    cpuSvn,
    pceSvn: tcb.integer("17", 0xffff),
    pceId: found.octets("3", 2),
    fmspc: found.octets("4", 6),
    platformInstanceId: found.has("6") ? found.octets("6", 16) : null,
    dynamicPlatform: configuration?.flag("1") ?? null,
    cachedKeys: configuration?.flag("2") ?? null,
    smtEnabled: configuration?.flag("3") ?? null,
  };
}

/** A SEQUENCE OF pairs of identifier and value, each member once; members go by the last number of the identifier. */
class Members {
  private readonly members = new Map<string, Tlv>();

  constructor(
    sequence: Tlv,
    private readonly owner: string,
  ) {
    if (sequence.tag !== TAG.sequence) defect(`${owner} is no SEQUENCE`);
    for (const [identifier, value] of all(sequence.body, readPair)) {
      if (this.members.has(identifier)) defect(`${identifier} stands twice`);
      this.members.set(identifier, value);
    }
  }

  has(number: string): boolean {
    return this.members.has(`${this.owner}.${number}`);
  }

  nested(number: string): Members {
    return new Members(this.member(number), `${this.owner}.${number}`);
  }

  octets(number: string, size: number): Bytes {
    const { body } = this.member(number, TAG.octetString);
    return body.length === size ? body : defect(`${this.owner}.${number} is not ${size} bytes`);
  }

  integer(number: string, most: number): number {
    const value = integer(this.member(number, TAG.integer));
    return value >= 0n && value <= BigInt(most) ? Number(value) : defect(`${this.owner}.${number} is not 0 to ${most}`);
  }

  flag(number: string): boolean | null {
    return this.has(number) ? boolean(this.member(number, TAG.boolean)) : null;
  }

  /** Standard, scalable, or scalable with integrity. */
  requireSgxType(number: string): void {
    const { body } = this.member(number, TAG.enumerated);
    if (body.length !== 1 || body[0]! > 2) defect("SGX type is not ENUMERATED 0, 1 or 2");
  }

  private member(number: string, tag?: number): Tlv {
    const found = this.members.get(`${this.owner}.${number}`) ?? defect(`no member ${this.owner}.${number}`);
    return tag === undefined || found.tag === tag ? found : defect(`${this.owner}.${number} has tag ${found.tag}`);
  }
}

function readPair(reader: DerReader): readonly [identifier: string, value: Tlv] {
  const pair = reader.sequence();
  const found = [oid(pair.next(TAG.oid)), pair.next()] as const;
  pair.end();
  return found;
}
