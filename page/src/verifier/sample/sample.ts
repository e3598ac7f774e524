/**
 * Trustee's sample evidence: any program can write it, so that only anchors for simulated evidence let it pass (see
 * attest.evidence.sample).
 */

import { anyBase64Bytes } from "../any_base64";
import { type Bytes, NO_BYTES, padded } from "../bytes";
import { nestedClaims } from "../claims";
import { isText } from "../envelope";
import { type Demand, demandsOf, need } from "../errors";
import type { Given, ParsedCpu, ParsedDevice, Verified } from "../evidence";
import { isObject, jsonValue } from "../json";
import { Procedure } from "../procedure";

const MAX_SVN = 64;
const REPORT_DATA_BYTES = 64;
const SAMPLE_STEPS = {
  format: ["sample.format", "Confidential Containers, sample attester"],
  accepted: ["sample.accepted", "docs/threat-model.md"],
} as const;
/** Constants of Trustee's verifier, which no machine has measured. */
const CONSTANTS = {
  launch_digest: "abcde",
  "platform_version.major": 1,
  "platform_version.minor": 4,
  debug: false,
} as const;

interface Sample {
  readonly svn: string;
  /** Empty when it is absent. */
  readonly report_data: Bytes;
}

const demand: Demand = demandsOf("malformed", "sample-malformed", "sample.format");

function parseSample(data: Bytes): Sample {
  const document = jsonValue(data, "sample evidence");
  demand(isObject(document), "sample", "an object");
  const { svn, report_data: text, ...others } = document;
  const [unknown] = Object.keys(others).sort();
  demand(unknown === undefined, `sample.'${unknown ?? ""}'`, "svn, report_data");
  demand(isText(svn, MAX_SVN), "sample.svn", `1 to ${MAX_SVN} printable characters`);
  if (text === undefined) return { svn, report_data: NO_BYTES };
  demand(typeof text === "string", "sample.report_data", "base64");
  const report_data = anyBase64Bytes(text, "sample.report_data");
  demand(report_data, "sample.report_data", "base64");
  demand(report_data.length <= REPORT_DATA_BYTES, "sample.report_data", `${REPORT_DATA_BYTES} bytes`);
  return { svn, report_data };
}

async function verifySample(kind: string, claims: Readonly<Record<string, unknown>>, given: Given): Promise<Verified> {
  const procedure = new Procedure(SAMPLE_STEPS);
  await procedure.step("format", (step) => {
    step.tell("svn and at most 64 bytes of report data", "as expected");
  });
  await procedure.step("accepted", (step) => {
    const isAccepted = given.anchors === "simulation";
    need(isAccepted, "verification", "sample-refused", "evidence that hardware signed", "sample evidence");
    step.tell("simulated evidence is accepted", "no signature");
  });
  return { kind, simulated: true, checks: procedure.finish(), claims: nestedClaims(claims as never), chain: [] };
}

export function readSample(data: Bytes): ParsedCpu {
  const sample = parseSample(data);
  const { report_data } = sample;
  return {
    kind: "sample",
    // Nothing equals no report data, not even zeros.
    reportData: report_data.length ? padded(report_data, REPORT_DATA_BYTES) : report_data,
    verify: (given) => verifySample("sample", { ...sample, ...CONSTANTS }, given),
  };
}

export function readSampleDevice(data: Bytes): ParsedDevice {
  const sample = parseSample(data);
  return {
    nonce: sample.report_data,
    hasNonceOfAnyLength: true,
    verify: (given) => verifySample("sample-device", { ...sample }, given),
    authenticate: () => Promise.resolve(undefined),
    judgeSet,
  };
}

/** Sample devices have nothing in common. */
const judgeSet: ParsedDevice["judgeSet"] = () => Promise.resolve({ checks: [], failures: [] });
