/**
 * The DCAP quote of SGX and TDX, versions 3, 4 and 5: header, body, and what the Quoting Enclave adds.
 *
 *     header 48 | descriptor 6 (version 5) | body | u32 length | signature data | padding
 *
 * Every nested part must end exactly where its container ends. Bytes behind the declared length are padding: many
 * platforms append some. They are counted and shown, and authenticate nothing.
 *
 * Spec: Intel DCAP, ECDSA quote format; intel-tdx-sgx.md 2 to 4, T01.
 */

import type { Bytes } from "../bytes";
import { type Decoded, type Layout, decodeLayout, layoutSize } from "../reader";
import { type Shown, shown } from "../shown";
import { need } from "../errors";
import { ENCLAVE_REPORT_BYTES, type EnclaveReport, parseEnclaveReport } from "../sgx/structure";
import { parseTdReport, TD_REPORT_BYTES, type TdReport } from "../tdx/structure";

/** Real quotes have 4,600 to 8,000 bytes with their padding; configfs returns up to 32 KiB. */
const MAX_QUOTE_BYTES = 64 * 1024;
const INTEL_QE_VENDOR = "939a7233f79c4ca9940a0db3957f0607";
/** Certification data that holds the PCK certificate and its issuers, PEM. */
export const PCK_CHAIN = 5;

export type Tee = "sgx" | "tdx";
const TEES: Readonly<Record<number, Tee>> = { 0: "sgx", 0x81: "tdx" };
const BODY_SIZES: Readonly<Record<number, number>> = { 1: ENCLAVE_REPORT_BYTES, ...TD_REPORT_BYTES };
const BODY_TYPES: Readonly<Record<Tee, readonly number[]>> = { sgx: [1], tdx: [2, 3, 4] };
const ECDSA_P256 = 2;
const QE_REPORT_CERTIFICATION = 6;
/**
 * Types 1 to 3 are PPID (clear, RSA-2048, RSA-3072), CPUSVN, PCESVN and PCEID; 4 and 5 are certificates of any size.
 */
const CERTIFICATION_SIZES: Readonly<Record<number, number>> = { 1: 36, 2: 276, 3: 404 };

const HEADER = { version: "u2", key_type: "u2", tee_type: "u4", reserved: 4, vendor: 16, rest: 20 } as const;
const TYPE_AND_SIZE = { type: "u2", size: "u4" } as const;
const LENGTH = { length: "u4" } as const;
/** Beginning of the signature data of version 3; from version 4 on, the QE's part has its own type and size. */
const KEY = { signature: 64, attestationKey: 64 } as const;
const QE = { report: ENCLAVE_REPORT_BYTES, qeReportSignature: 64, auth_size: "u2" } as const;
const FIXED = { ...KEY, ...QE } as const;
const WRAPPED = { ...KEY, ...TYPE_AND_SIZE, ...QE } as const;

const SIGNATURE_DATA = "signature data";
const CERTIFICATION_DATA = "certification data";

/** A quote as presented: untrusted until its signatures and chain are verified. */
export interface Quote {
  readonly version: number;
  readonly tee: Tee;
  /** One of the two, by the TEE type. */
  readonly td: TdReport | undefined;
  readonly enclave: EnclaveReport | undefined;
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

/** Takes the parts of a quote from its front. Each nested part bounds what is in it (`end`). */
class QuoteReader {
  at = 0;
  end: number;

  constructor(private readonly data: Bytes) {
    this.end = data.length;
  }

  requireLeft(size: number, field: string): void {
    const { at } = this;
    const left = this.end - at;
    need(size <= left, "malformed", "quote-truncated", size, left, { field, offset: at });
  }

  take(size: number, field: string): Bytes {
    this.requireLeft(size, field);
    this.at += size;
    return this.data.slice(this.at - size, this.at);
  }

  read<const L extends Layout>(layout: L, field: string): Decoded<L> {
    return decodeLayout(layout, this.take(layoutSize(layout), field), field, "");
  }

  /** Require a nested part of this size to end where its container does. */
  requireFilled(size: number, field: string): void {
    this.requireLeft(size, field);
    requireSize(field, this.end - this.at, size);
  }
}

/** Read a quote of SGX or TDX with its padding. */
export function parseQuote(data: Bytes): Quote {
  need(data.length <= MAX_QUOTE_BYTES, "malformed", "quote-too-large", MAX_QUOTE_BYTES, data.length);
  const reader = new QuoteReader(data);
  // (1) Header: what comes after is read by version, TEE and body type together.
  const { version, tee } = requireHeader(reader.read(HEADER, "header"));
  // (2) Body.
  const reports = readBody(reader, version, tee);
  const signedBytes = data.slice(0, reader.at);
  // (3) Signature data: its declared length bounds everything in it.
  const { length } = reader.read(LENGTH, SIGNATURE_DATA);
  reader.requireLeft(length, SIGNATURE_DATA);
  reader.end = reader.at + length;
  const signatures = readSignatures(reader, version);
  // (4) Certification data, which ends where the signature data ends.
  const certification = readCertification(reader);
  return {
    version,
    tee,
    ...reports,
    signedBytes,
    ...signatures,
    ...certification,
    paddingBytes: data.length - reader.end,
  };
}

type Reports = Pick<Quote, "td" | "enclave" | "report_data">;

/** The body: in version 5 of a type that is told, of this TEE and of the size that it has. */
function readBody(reader: QuoteReader, version: number, tee: Tee): Reports {
  const types = BODY_TYPES[tee];
  const told = version === 5 ? reader.read(TYPE_AND_SIZE, "body") : undefined;
  const type = told ? told.type : types[0]!;
  known(types.includes(type), "body-type", types, type);
  const size = BODY_SIZES[type]!;
  if (told) requireSize("body", size, told.size);
  const body = reader.take(size, "body");
  if (tee === "sgx") {
    const enclave = parseEnclaveReport(body);
    return { td: undefined, enclave, report_data: enclave.report_data };
  }
  const td = parseTdReport(body, type);
  return { td, enclave: undefined, report_data: td.report_data };
}

type Signatures = Pick<
  Quote,
  "signature" | "attestationKey" | "qeReport" | "report" | "qeReportSignature" | "qeAuthData"
>;

/**
 * The signatures, and the QE's part: wrapped from version 4 on, and since no signature covers the wrapping, compared.
 */
function readSignatures(reader: QuoteReader, version: number): Signatures {
  const wrapped = version > 3 ? reader.read(WRAPPED, SIGNATURE_DATA) : undefined;
  const fixed = wrapped ?? reader.read(FIXED, SIGNATURE_DATA);
  if (wrapped) {
    known(wrapped.type === QE_REPORT_CERTIFICATION, "certification-data", QE_REPORT_CERTIFICATION, wrapped.type);
    reader.requireFilled(wrapped.size - layoutSize(QE), CERTIFICATION_DATA);
  }
  const { signature, attestationKey, qeReportSignature, report } = fixed;
  const qeAuthData = reader.take(fixed.auth_size, SIGNATURE_DATA);
  return { signature, attestationKey, qeReport: parseEnclaveReport(report), report, qeReportSignature, qeAuthData };
}

function readCertification(reader: QuoteReader): Pick<Quote, "certificationType" | "certificationData"> {
  const { type, size } = reader.read(TYPE_AND_SIZE, CERTIFICATION_DATA);
  known(type > 0 && type <= PCK_CHAIN, "certification-data", "1 to 5", type);
  reader.requireFilled(size, CERTIFICATION_DATA);
  requireSize(CERTIFICATION_DATA, CERTIFICATION_SIZES[type] ?? size, size);
  return { certificationType: type, certificationData: reader.take(size, CERTIFICATION_DATA) };
}

function requireHeader({ version, key_type, tee_type, vendor }: Decoded<typeof HEADER>): { version: number; tee: Tee } {
  known(version >= 3 && version <= 5, "version", "3 to 5", version);
  known(key_type === ECDSA_P256, "key-type", ECDSA_P256, key_type);
  const tee = TEES[tee_type];
  known(tee && (version > 3 || tee === "sgx"), "tee-type", version > 3 ? "0, 129" : 0, tee_type);
  known(shown(vendor) === INTEL_QE_VENDOR, "vendor", INTEL_QE_VENDOR, vendor);
  return { version, tee };
}
