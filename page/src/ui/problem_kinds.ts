/** Which sentence stands for a code: by its own name, or by a family of codes. The words stand in `strings`. */

import type { Rest } from "./strings";

export type ProblemKind = keyof Rest["problems"];

const NAMED: Readonly<Record<string, ProblemKind>> = {
  "service-unreachable": "unreachable",
  "service-too-slow": "slow",
  "service-busy": "busy",
  "service-starting": "starting",
  "webcrypto-missing": "insecure",
  "page-incomplete": "reload",
  "page-defect": "defect",
  "badge-settings": "settings",
  stopped: "aborted",
  "rag-document-empty": "scan",
  "rag-question-too-slow": "slow",
  "not-affirmed": "notAccepted",
  "channel-record-expired": "notAccepted",
  "channel-keys-unsupported": "browser",
  "channel-refused": "answer",
  "channel-keys-refused": "answer",
  "wire-invalid": "answer",
  "simulated-root-refused": "simulator",
  "sample-refused": "simulator",
  "snp-report-unsigned": "signature",
  "eventlog-registers-unsigned": "log",
  "tcb-not-supported": "revoked",
  "tdx-module-unknown": "mismatch",
  "certificate-status-unknown": "missing",
};

/** The first family that fits counts. */
const FAMILIES: readonly (readonly [RegExp, ProblemKind])[] = [
  [/^rag-(?:stopped|locked|unlocking)$/, "ended"],
  [/^rag-(?:too-busy|rate-limited|unavailable)$/, "busy"],
  [/^rag-(?:documents-full|store-full|limit-(?:documents|passages|text-bytes|collections|total-passages))$/, "full"],
  [/^rag-upload-too-slow$/, "limit"],
  [/^(?:rag|document)-.*(?:large|many|limit|full|long)/, "limit"],
  [/^document-/, "document"],
  [/^rag-/, "request"],
  [/^policy-/, "policy"],
  [/^references-/, "references"],
  [/^provenance-/, "provenance"],
  [/^channel-/, "cut"],
  [/nonce|freshness/, "stale"],
  [/^(?:binding|provider-gpus|attachment|report-data)/, "binding"],
  [/revoked/, "revoked"],
  [/expired|not-yet-valid|stale|^time-/, "time"],
  [/(?:crl|ocsp|rim|collateral|tcb-info|certificate|key|compose)-missing|endorsement-/, "missing"],
  [/^(?:eventlog|dstack)-.*(?:mismatch|registers|config-id|event-invalid)/, "log"],
  [/signature-invalid|attestation-key/, "signature"],
  [/root-|issuer|chain|ca-flags|leaf|pck-name|certificate-(?:signature|algorithm)|extension|^public-key/, "chain"],
  [/mismatch|inconsistent|conflict|topology|repeated|vmpl|unexpected/, "mismatch"],
  [/unsupported|unknown|ambiguous|unrecognised|not-applicable/, "unsupported"],
  [/malformed|invalid|length|truncated|too-large|incomplete|missing|size-|trailing|reserved|empty/, "malformed"],
];

export function kindOf(code: string): ProblemKind {
  return NAMED[code] ?? FAMILIES.find(([family]) => family.test(code))?.[1] ?? "other";
}
