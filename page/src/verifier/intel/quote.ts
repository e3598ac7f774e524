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

import { type Bytes, hex } from "../bytes";
import type { AttestError, Kind } from "../errors";
import { ENCLAVE_REPORT_BYTES, type EnclaveReport, parseEnclaveReport } from "../sgx/structure";
import { parseTdReport, TD_REPORT_BYTES, type TdReport } from "../tdx/structure";
import { refusal } from "./refusal";

/** Real quotes have 4,600 to 8,000 bytes with their padding; configfs hands out up to 32 KiB. */
const MAX_QUOTE_BYTES = 64 * 1024;
const INTEL_QE_VENDOR = "939a7233f79c4ca9940a0db3957f0607";
/** Certification data that holds the PCK certificate and its issuers, PEM. */
export const PCK_CHAIN = 5;

export type Tee = "sgx" | "tdx";
const TEES: Readonly<Record<number, Tee>> = { 0: "sgx", 0x81: "tdx" };
const BODY_SIZES: Readonly<Record<number, number>> = { 1: ENCLAVE_REPORT_BYTES, ...TD_REPORT_BYTES };
const BODY_TYPES: Readonly<Record<Tee, readonly number[]>> = { sgx: [1], tdx: [2, 3] };
const HEADER_BYTES = 48;
const ECDSA_P256 = 2;
const QE_REPORT_CERTIFICATION = 6;
/** Types 1 to 3 are PPID (clear, RSA-2048, RSA-3072), CPUSVN, PCESVN and PCEID; 4 and 5 are certificates. */
const CERTIFICATION_SIZES: Readonly<Record<number, number | null>> = { 1: 36, 2: 276, 3: 404, 4: null, 5: null };

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
  readonly qeReportSignature: Bytes;
  readonly qeAuthData: Bytes;
  /** 5: PEM chain of the PCK; 1 to 4: the chain has to come from elsewhere. */
  readonly certificationType: number;
  readonly certificationData: Bytes;
  readonly paddingBytes: number;
}

const refused = (kind: Kind, code: string, field: string, offset: number, expected: string, got: string): AttestError =>
  refusal(kind, `quote-${code}`, field, expected, got, { offset, clause: "Intel DCAP, ECDSA quote format; intel-tdx-sgx.md 2 to 4" });

const unsupported = (what: string, field: string, offset: number, expected: string, got: unknown) =>
  refused("unsupported", `${what}-unsupported`, field, offset, expected, String(got));

/** A span of the quote, read from its front; nothing is read behind its end. */
class Part {
  constructor(
    private readonly data: Bytes,
    public at: number,
    public readonly end: number,
  ) {}

  take(size: number, field: string): Bytes {
    if (this.at + size > this.end) {
      throw refused("malformed", "truncated", field, this.at, `${size} bytes`, `${this.end - this.at} bytes`);
    }
    this.at += size;
    return this.data.slice(this.at - size, this.at);
  }

  number(size: 2 | 4, field: string): number {
    return this.take(size, field).reduceRight((value, byte) => value * 256 + byte, 0);
  }

  /** Require a nested part of this size to end where its container does. */
  requireEnd(size: number, field: string): void {
    if (this.at + size < this.end) {
      throw mismatch(field, this.at, `${this.end - this.at} bytes`, size);
    }
    new Part(this.data, this.at, this.end).take(size, field);
  }
}

const mismatch = (field: string, offset: number, expected: string, size: number) =>
  refused("malformed", "length-mismatch", field, offset, expected, `${size} bytes`);

/** Read a quote of SGX or TDX with its padding. */
export function parseQuote(data: Bytes): Quote {
  if (data.length > MAX_QUOTE_BYTES) {
    throw refused("malformed", "too-large", "quote", 0, `at most ${MAX_QUOTE_BYTES} bytes`, `${data.length} bytes`);
  }
  // (1) Header: what comes after is read by version, TEE and body type together.
  const whole = new Part(data, 0, data.length);
  const header = whole.take(HEADER_BYTES, "quote header");
  const { version, tee } = readHeader(new Part(header, 0, HEADER_BYTES));
  // (2) Body.
  const bodyType = version === 5 ? readDescriptor(whole, tee) : BODY_TYPES[tee][0]!;
  const body = whole.take(BODY_SIZES[bodyType]!, "body");
  const td = tee === "tdx" ? parseTdReport(body, bodyType) : null;
  const enclave = tee === "sgx" ? parseEnclaveReport(body) : null;
  const signedBytes = data.slice(0, whole.at);
  // (3) Signature data: its declared length bounds everything in it.
  const length = whole.number(4, "signature data length");
  const from = whole.at;
  whole.take(length, "signature data");
  return {
    version,
    tee,
    td,
    enclave,
    report_data: (td ?? enclave)!.report_data,
    signedBytes,
    ...readSignatureData(new Part(data, from, whole.at), version),
    paddingBytes: data.length - whole.at,
  };
}

function readHeader(header: Part): { version: number; tee: Tee } {
  const version = header.number(2, "version");
  if (version < 3 || version > 5) throw unsupported("version", "version", 0, "3, 4 or 5", version);
  const keyType = header.number(2, "attestation key type");
  if (keyType !== ECDSA_P256) throw unsupported("key-type", "attestation key type", 2, "2 (ECDSA P-256)", keyType);
  const teeType = header.number(4, "TEE type");
  const tee = TEES[teeType];
  if (tee === undefined || (version === 3 && tee !== "sgx")) {
    const known = version === 3 ? "0x0 (SGX)" : "0x0 (SGX) or 0x81 (TDX)";
    throw unsupported("tee-type", "TEE type", 4, known, `0x${teeType.toString(16)} in version ${version}`);
  }
  header.take(4, "reserved");
  const vendor = hex(header.take(16, "QE vendor id"));
  if (vendor !== INTEL_QE_VENDOR) throw unsupported("vendor", "QE vendor id", 12, `${INTEL_QE_VENDOR} (Intel)`, vendor);
  return { version, tee };
}

/** Read a version 5 quote's descriptor: a body type that is known, of this TEE, and of the size that it has. */
function readDescriptor(quote: Part, tee: Tee): number {
  const descriptor = quote.take(6, "body descriptor");
  const part = new Part(descriptor, 0, 6);
  const bodyType = part.number(2, "body type");
  const size = part.number(4, "body size");
  if (!BODY_TYPES[tee].includes(bodyType)) {
    throw unsupported("body-type", "body type", 48, `${BODY_TYPES[tee].join(" or ")} (${tee.toUpperCase()})`, bodyType);
  }
  const expected = BODY_SIZES[bodyType]!;
  if (size !== expected) throw mismatch("body size", 50, `${expected} bytes for type ${bodyType}`, size);
  return bodyType;
}

function readSignatureData(part: Part, version: number) {
  const at = part.at;
  // The fixed part is read as one: too short a container is said of it, whichever field it ends in.
  const size = version === 3 ? 578 : 584;
  const fixed = new Part(part.take(size, "signature data"), 0, size);
  const signature = fixed.take(64, "quote signature");
  const attestationKey = fixed.take(64, "attestation key");
  if (version !== 3) requireOuter(fixed, at, part.end);
  const qeReport = parseEnclaveReport(fixed.take(ENCLAVE_REPORT_BYTES, "QE report"));
  const qeReportSignature = fixed.take(64, "QE report signature");
  // (4) QE authentication data and certification data, which ends where the signature data ends.
  const qeAuthData = part.take(fixed.number(2, "QE authentication data size"), "QE authentication data");
  return { signature, attestationKey, qeReport, qeReportSignature, qeAuthData, ...readCertification(part) };
}

/** From version 4 on the QE's part is wrapped, and no signature covers the wrapping: it is compared here. */
function requireOuter(fixed: Part, at: number, end: number): void {
  const kind = fixed.number(2, "outer certification type");
  if (kind !== QE_REPORT_CERTIFICATION) {
    const expected = "6 (QE report certification data)";
    throw unsupported("certification-data", "outer certification type", at + 128, expected, kind);
  }
  const size = fixed.number(4, "outer certification size");
  const left = end - (at + 134);
  if (size !== left) {
    const code = size > left ? "truncated" : "length-mismatch";
    const [expected, got] = size > left ? [size, left] : [left, size];
    throw refused("malformed", code, "outer certification data", at + 134, `${expected} bytes`, `${got} bytes`);
  }
}

function readCertification(part: Part) {
  const at = part.at;
  const head = new Part(part.take(6, "certification data"), 0, 6);
  const certificationType = head.number(2, "certification type");
  const size = head.number(4, "certification data size");
  const expected = CERTIFICATION_SIZES[certificationType];
  if (expected === undefined) throw unsupported("certification-data", "certification type", at, "1 to 5", certificationType);
  part.requireEnd(size, "certification data");
  if (expected !== null && size !== expected) {
    throw mismatch("certification data", part.at, `${expected} bytes for type ${certificationType}`, size);
  }
  return { certificationType, certificationData: part.take(size, "certification data") };
}
