/**
 * The attestation check in a browser: whether evidence is genuine, by the same procedure, names, check ids and error
 * codes as `attest verify --json`. It fetches nothing, reads no clock and needs WebCrypto, so a secure context.
 */
/** Bytes, or the same as hex. */
export type BytesOrHex = Uint8Array | string;
/** One file. */
export interface FileBytes {
    /** For messages. */
    readonly name: string;
    readonly bytes: Uint8Array;
}
/** A named, reasoned decision to tolerate that one thing cannot be judged; shown in the result. */
export interface UncheckedReason {
    readonly check: "revocation" | "freshness" | "rim" | "tcb" | "eventlog" | "topology";
    readonly reason: string;
}
/** Demands of a Relying Party on the binding that came with the evidence. */
export interface BindingExpectation {
    readonly context: string;
    readonly role: string;
    readonly audience: string;
    /** 32 bytes. */
    readonly nonce: BytesOrHex;
    /** Key that it must commit to; absent if the caller compares it. */
    readonly key?: BytesOrHex | undefined;
}
/** Tolerances of a policy for NVIDIA's devices of one kind, each with its reason; shown in the result. */
export interface ToleranceReasons {
    /** By RIM index, 0 to 63: a measurement there that differs is only shown. */
    readonly waivedMeasurements?: Readonly<Record<string, string>> | undefined;
    /** By name (`36:0300`: a type of opaque data and its bytes): a value without a known meaning is accepted. */
    readonly acceptedOpaque?: Readonly<Record<string, string>> | undefined;
    /** A RIM signer on hold counts all the same. */
    readonly heldRimSigners?: string | undefined;
}
export interface VerifyOptions {
    /** Moment of appraisal: a Date, or milliseconds since 1970. */
    readonly at: Date | number;
    /** Nonce that fresh evidence has: 1 to 64 bytes. */
    readonly nonce?: BytesOrHex | undefined;
    /** All 64 bytes of report data (on Azure those of the user data, which alone are no freshness). */
    readonly reportData?: BytesOrHex | undefined;
    /** Required content of the binding; instead of a nonce. */
    readonly binding?: BindingExpectation | undefined;
    /** Certificates, CRLs, collateral, RIMs, OCSP answers, bundles: candidates, none of them trusted. */
    readonly endorsements?: readonly (Uint8Array | FileBytes)[] | undefined;
    /** A CCEL or TCG2 log that must replay to the evidence's registers. */
    readonly eventLog?: Uint8Array | undefined;
    /** `"vendors"` unless said otherwise. A result that rests on `"simulation"` says `simulated: true`. */
    readonly anchors?: "vendors" | "simulation" | undefined;
    readonly unchecked?: readonly UncheckedReason[] | undefined;
    readonly tolerances?: {
        readonly gpus?: ToleranceReasons | undefined;
        readonly switches?: ToleranceReasons | undefined;
        /** By name (`spl4:1`): a level without a known meaning in a certificate of AMD's is accepted. */
        readonly spls?: Readonly<Record<string, string>> | undefined;
    } | undefined;
}
export type Outcome = "pass" | "fail" | "warning" | "not evaluated";
export interface CheckResult {
    readonly id: string;
    readonly outcome: Outcome;
    readonly tier: "affirming" | "warning" | "contraindicated" | "none";
    readonly expected: string;
    readonly got: string;
    readonly clause: string;
    /** Name of the evidence item that was examined. */
    readonly item?: string;
}
export type ClaimJson = null | boolean | number | string | readonly ClaimJson[] | {
    readonly [name: string]: ClaimJson;
};
export interface ItemResult {
    readonly name: string;
    readonly kind: string;
    /** Of a service's document: the machine's instance id, or its number in the document. */
    readonly machine?: string;
    /** Of a service's document: the machine's place in it. */
    readonly role?: "gateway" | "model" | "router";
    readonly claims: Readonly<Record<string, ClaimJson>>;
}
/** Something that genuine evidence does not show. It changes no outcome. */
export interface Caution {
    readonly code: string;
    readonly message: string;
}
/**
 * A certificate on which a verified item rests, leaf first, up to the pinned root. A root that is held as a key, and
 * came as no certificate, has a subject and a key only.
 */
export interface CertificateResult {
    /** Name of the evidence item. */
    readonly item: string;
    readonly subject: string;
    /** SHA-256 of the SubjectPublicKeyInfo, hex: what a trust anchor is pinned by. */
    readonly key_sha256: string;
    /** It is a trust anchor of this verification. */
    readonly pinned: boolean;
    readonly issuer?: string;
    /** Hex. */
    readonly serial?: string;
    readonly not_before?: string;
    readonly not_after?: string;
    /** Of the certificate's DER, hex. */
    readonly sha256?: string;
    readonly pem?: string;
}
/** Why evidence was refused; the hints stand in docs/errors.md, under the code. */
export interface ErrorResult {
    readonly code: string;
    readonly message: string;
    readonly check?: string | undefined;
    readonly field?: string | undefined;
    readonly offset?: number | undefined;
    readonly expected?: string | undefined;
    readonly got?: string | undefined;
    readonly clause?: string | undefined;
    readonly retryable?: boolean | undefined;
}
/** The versioned result of `attest verify --json`. */
export interface Result {
    readonly schema: "attest.result/1";
    readonly command: "verify";
    readonly outcome: "verified" | "refused";
    readonly at: string;
    readonly simulated: boolean;
    readonly freshness: "matched" | "mismatched" | "not evaluated";
    readonly unchecked: readonly UncheckedReason[];
    readonly error: ErrorResult | null;
    /** SHA-384 over all items of verified evidence: by it a result names what it is about. */
    readonly evidence_digest?: string;
    readonly ignored_items?: readonly string[];
    /** Facts that the evidence does not prove, although it is genuine. */
    readonly warnings?: readonly Caution[];
    readonly items: readonly ItemResult[];
    readonly checks: readonly CheckResult[];
    /** Chains of verified evidence, for display; the command line's result does not have them. */
    readonly certificates?: readonly CertificateResult[];
}
/**
 * Verify all evidence of one Attester.
 *
 * @param input bytes of an envelope, a raw report or quote, or a vendor's JSON; an object is the JSON, parsed; an array
 *   is several files that belong together.
 * @returns a result for any evidence at all; `outcome` is `verified` or `refused`, and nothing else is a success.
 * @throws TypeError for options that no evidence could meet: a programmer's mistake
 */
export type VerifyEvidence = (input: Uint8Array | object | readonly (Uint8Array | FileBytes)[], options: VerifyOptions) => Promise<Result>;
export declare const verifyEvidence: VerifyEvidence;
