/**
 * The DCAP quote of SGX and TDX, versions 3, 4 and 5: header, body, and what the Quoting Enclave adds.
 *
 *     header 48 | descriptor 6 (version 5) | body | u32 length | signature data | padding
 *
 * Every nested part must end exactly where its container ends. Bytes behind the declared length are padding: many
 * platforms append some. They are counted and shown, and vouch for nothing.
 *
 * Spec: Intel DCAP, ECDSA quote format; intel-tdx-sgx.md 2 to 4, T01.
 */

import { type Bytes, type Decoded, type Layout, decodeLayout, layoutSize } from "../bytes";
import { type Shown, need, shown } from "../errors";
import { ENCLAVE_REPORT_BYTES, type EnclaveReport, parseEnclaveReport } from "../sgx/structure";
import { parseTdReport, TD_REPORT_BYTES, type TdReport } from "../tdx/structure";

/** Real quotes have 4,600 to 8,000 bytes with their padding; configfs hands out up to 32 KiB. */
const MAX_QUOTE_BYTES = 64 * 1024;
const INTEL_QE_VENDOR = "939a7233f79c4ca9940a0db3957f0607";
/** Certification data that holds the PCK certificate and its issuers, PEM. */
export const PCK_CHAIN = 5;

export type Tee = "sgx" | "tdx";
const TEES: Readonly<Record<number, Tee>> = { 0: "sgx", 0x81: "tdx" };
const BODY_SIZES: Readonly<Record<number, number>> = { 1: ENCLAVE_REPORT_BYTES, ...TD_REPORT_BYTES };
const BODY_TYPES: Readonly<Record<Tee, readonly number[]>> = { sgx: [1], tdx: [2, 3] };
const ECDSA_P256 = 2;
const QE_REPORT_CERTIFICATION = 6;
/** Types 1 to 3 are PPID (clear, RSA-2048, RSA-3072), CPUSVN, PCESVN and PCEID; 4 and 5 are certificates of any size. */
const CERTIFICATION_SIZES: readonly (number | undefined)[] = [, 36, 276, 404];

const HEADER = { version: "u2", key_type: "u2", tee_type: "u4", reserved: 4, vendor: 16, rest: 20 } as const;
const TYPE_AND_SIZE = { type: "u2", size: "u4" } as const;
const LENGTH = { length: "u4" } as const;
/** What begins the signature data of version 3; from version 4 on the QE's part has a type and a size of its own. */
const KEY = { signature: 64, attestationKey: 64 } as const;
const QE = { report: ENCLAVE_REPORT_BYTES, qeReportSignature: 64, auth_size: "u2" } as const;
const FIXED = { ...KEY, ...QE } as const;
const WRAPPED = { ...KEY, ...TYPE_AND_SIZE, ...QE } as const;

/** A quote as presented: a stranger's word until its signatures and chain are verified. */
export interface Quote {
  readonly version: number;
  readonly tee: Tee;
  /** One of the two, by the TEE type. */
  readonly td: TdReport | null;
  readonly enclave: EnclaveReport | null;
  readonly report_data: Bytes;
  /** Header, descriptor and body as received: what the attestation key signed. */
  readonly signedBytes: Bytes;
  /** r and s, big-endian. */
  readonly signature: Bytes;
  /** x and y, big-endian; any bytes, perhaps no point of the curve. */
  readonly attestationKey: Bytes;
  /** The report of the Quoting Enclave, which commits to the attestation key. */
  readonly qeReport: EnclaveReport;
  /** The same as received: what the PCK signed. */
  readonly report: Bytes;
  readonly qeReportSignature: Bytes;
  readonly qeAuthData: Bytes;
  /** 5: PEM chain of the PCK; 1 to 4: the chain has to come from elsewhere. */
  readonly certificationType: number;
  readonly certificationData: Bytes;
  readonly paddingBytes: number;
}

function known(condition: unknown, what: string, expected: Shown, got: Shown): asserts condition {
  need(condition, "unsupported", `quote-${what}-unsupported`, expected, got);
}

/** Require a nested part to have the size that its type or its container gives it. */
function requireSize(field: string, expected: number, got: number): void {
  need(got === expected, "malformed", "quote-length-mismatch", expected, got, { field });
}

/** Read a quote of SGX or TDX with its padding. */
export function parseQuote(data: Bytes): Quote {
  need(data.length <= MAX_QUOTE_BYTES, "malformed", "quote-too-large", MAX_QUOTE_BYTES, data.length);
  let at = 0;
  let end = data.length;
  const requireLeft = (size: number, field: string): void =>
    need(size <= end - at, "malformed", "quote-truncated", size, end - at, { field, offset: at });
  const take = (size: number, field: string): Bytes => {
    requireLeft(size, field);
    return data.slice(at, (at += size));
  };
  /** Require a nested part to end where its container does. */
  const requireFilled = (size: number): void => {
    requireLeft(size, "certification data");
    requireSize("certification data", end - at, size);
  };
  const read = <const L extends Layout>(layout: L, field: string): Decoded<L> =>
    decodeLayout(layout, take(layoutSize(layout), field), field, "");
  // (1) Header: what comes after is read by version, TEE and body type together.
  const { version, tee } = requireHeader(read(HEADER, "header"));
  // (2) Body: in version 5 of a type that is told, of this TEE and of the size that it has.
  const [only] = BODY_TYPES[tee];
  const told = version === 5 && read(TYPE_AND_SIZE, "body");
  const type = told ? told.type : only!;
  known(BODY_TYPES[tee].includes(type), "body-type", BODY_TYPES[tee], type);
  if (told) requireSize("body", BODY_SIZES[type]!, told.size);
  const body = take(BODY_SIZES[type]!, "body");
  const [td, enclave] = tee === "tdx" ? [parseTdReport(body, type), null] : [null, parseEnclaveReport(body)];
  const signedBytes = data.slice(0, at);
  // (3) Signature data: its declared length bounds everything in it.
  const { length } = read(LENGTH, "signature data");
  requireLeft(length, "signature data");
  end = at + length;
  const wrapped = version > 3 ? read(WRAPPED, "signature data") : undefined;
  const fixed = wrapped ?? read(FIXED, "signature data");
  const { signature, attestationKey, qeReportSignature, report } = fixed;
  // From version 4 on the QE's part is wrapped, and no signature covers the wrapping: it is compared here.
  if (wrapped) {
    known(wrapped.type === QE_REPORT_CERTIFICATION, "certification-data", QE_REPORT_CERTIFICATION, wrapped.type);
    requireFilled(wrapped.size - layoutSize(QE));
  }
  // (4) QE authentication data and certification data, which ends where the signature data ends.
  const qeAuthData = take(fixed.auth_size, "signature data");
  const { type: certificationType, size } = read(TYPE_AND_SIZE, "certification data");
  known(certificationType && certificationType <= PCK_CHAIN, "certification-data", "1 to 5", certificationType);
  requireFilled(size);
  requireSize("certification data", CERTIFICATION_SIZES[certificationType] ?? size, size);
  const certificationData = take(size, "certification data");
  const qe = {
    qeReport: parseEnclaveReport(report),
    report,
    qeReportSignature,
    qeAuthData,
    certificationType,
    certificationData,
  };
  const { report_data } = td ?? enclave;
  return {
    version,
    tee,
    td,
    enclave,
    report_data,
    signedBytes,
    signature,
    attestationKey,
    ...qe,
    paddingBytes: data.length - end,
  };
}

function requireHeader({ version, key_type, tee_type, vendor }: Decoded<typeof HEADER>): { version: number; tee: Tee } {
  known(version >= 3 && version <= 5, "version", "3 to 5", version);
  known(key_type === ECDSA_P256, "key-type", ECDSA_P256, key_type);
  const tee = TEES[tee_type];
  known(tee && (version > 3 || tee === "sgx"), "tee-type", version > 3 ? "0, 129" : 0, tee_type);
  known(shown(vendor) === INTEL_QE_VENDOR, "vendor", INTEL_QE_VENDOR, vendor);
  return { version, tee };
}
