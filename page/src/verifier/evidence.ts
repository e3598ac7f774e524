/** Evidence that was read, what every procedure is given, and what it makes of it. */

import type { TrustAnchors } from "./anchors";
import type { Bytes } from "./bytes";
import type { Check, Unchecked } from "./checks";
import type { Claims } from "./claims";
import type { AttestError } from "./errors";
import type { Endorsements } from "./pool";
import type { TdReport } from "./tdx/structure";
import type { NamedValues } from "./unknown_values";
import type { Certificate, Issuer } from "./x509";

/** Named tolerances of a Verifier Owner for devices of one kind; shown in the result. */
export interface Tolerances {
  /** Reasons by RIM index for mismatches that are only shown. */
  readonly waived: ReadonlyMap<number, string>;
  readonly opaque: NamedValues;
  /** Why a RIM signer on hold counts all the same; never applies to device chains. */
  readonly heldRimSigners: string | undefined;
}

/** Inputs of every procedure. */
export interface Given {
  readonly endorsements: Endorsements;
  readonly anchors: TrustAnchors;
  /** Moment of appraisal, milliseconds since 1970, UTC. */
  readonly at: number;
  readonly unchecked: readonly Unchecked[];
  /** By kind: the indices of a switch mean other things than those of a GPU; and levels in certificates of AMD's. */
  readonly tolerances: { readonly gpus: Tolerances; readonly switches: Tolerances; readonly spls: NamedValues };
}

/** A device whose evidence is genuine. Built by its procedure only, after the last check. */
export interface Verified {
  readonly kind: string;
  readonly simulated: boolean;
  readonly checks: readonly Check[];
  readonly claims: Claims;
  /** The certificates that speak for it, leaf first, up to the pinned root; that one may be a bare key. */
  readonly chain: readonly (Issuer | Certificate)[];
}

/** The registers to which the event log of such a machine leads, by name (`RTMR0`, `PCR7`). */
export interface Registers {
  readonly log: "ccel" | "tcg2-sha256";
  readonly values: ReadonlyMap<string, Bytes>;
}

/** Evidence of a CPU, read and not trusted yet. */
export interface ParsedCpu {
  readonly kind: string;
  /** The 64 bytes that the guest chose. */
  readonly reportData: Bytes;
  /** Of a quote: what its platform signed. */
  readonly signed?: Bytes;
  /** Of a quote: the report without its report data, and the key that signed it; two of one machine agree in both. */
  readonly machine?: string;
  /** The field of its own in which such evidence carries the nonce; absent where it stands in the report data. */
  readonly nonce?: Bytes;
  readonly registers?: Registers;
  /** Values that attachments of an SNP report are compared with; absent in every other kind. */
  readonly snp?: { readonly measurement: Bytes; readonly host_data: Bytes };
  /** The report that dstack's log and statements are compared with. */
  readonly td?: TdReport;
  /** The numbered procedure; throws an `AttestError` with its checks for everything that does not hold. */
  verify(given: Given): Promise<Verified>;
}

/** Evidence of a device, in the same form. */
export interface ParsedDevice {
  /** The request nonce: 32 bytes, unless any length is said to do. */
  readonly nonce: Bytes;
  readonly hasNonceOfAnyLength?: boolean;
  /** SubjectPublicKeyInfo of the device's own certificate; absent where none came along. */
  readonly deviceKey?: Bytes | undefined;
  verify(given: Given): Promise<Verified>;
  /** The device that signed refused evidence, to be judged with the others; undefined when it does not hold. */
  authenticate(given: Given): Promise<object | undefined>;
  /** Judges what no single device of the format can show; devices of another format are passed over. */
  readonly judgeSet: JudgeSet;
}

/** One refusal for each check that failed. */
export interface JudgedSet {
  readonly checks: readonly Check[];
  readonly failures: readonly AttestError[];
}

export type JudgeSet = (
  all: readonly (readonly [name: string, member: object])[],
  unchecked: readonly Unchecked[],
) => Promise<JudgedSet>;
