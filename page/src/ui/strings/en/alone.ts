/** What the page without a service says: of files, two pieces of evidence, links, and this browser's history. */

import type { Checks } from "./checks";
import type { Verdict } from "./verdict";

type Problems = Readonly<Partial<Record<keyof Checks["problems"], string>>>;

export const alone = {
  /** Names and labels of the document's own elements. */
  page: {
    title: "Is this evidence genuine?",
    intro:
      "Drop files of evidence, of endorsements and of a policy. They are checked here, in your browser. " +
      "Nothing leaves it: this page is not allowed to connect to anything.",
    files: "Files",
    choose: "Evidence, endorsements and policy: choose files, or drop them here",
    chosen: "Chosen files",
    question: "Nonce and moment",
    nonce: "Expected nonce (hex)",
    stale: "There is no nonce: judge the evidence although it may be a recording",
    at: "Moment of the check, as in 2026-06-10T00:00:00Z (empty: now)",
    apply: "Check with these",
    repeatHow: "Save your policy beside these files, and run this on any computer:",
    notProved:
      "It does not prove that the software is good: only that it is the one that was accepted. Without a nonce of " +
      "yours it does not show when the evidence was made. It is as trustworthy as this page.",
    from: "The page checks files, without a service. Serve it from your own computer with attest page.",
    comparing: "Compare with other evidence",
    compareWith: "Files of the other evidence: choose them, or drop them here",
    sharing: "Share what you checked",
    shareHow: "The link names the files and the policy by their digests. It contains none of them.",
    makeLink: "Make a link",
  },
  /** What a person reads in place of the words for a service. */
  instead: {
    proved: {
      genuine:
        "It proves that the hardware's maker signed for the machine of this evidence. It was made for the expected " +
        "nonce only if that was compared.",
      simulated: "A simulator signed this, whose keys everybody has. It proves nothing about hardware.",
      nothing: "At this moment nothing is proved.",
    },
    states: {
      checking: ["Checking", "The files are being checked."],
      unknown: [
        "Genuine, but not yet accepted by you",
        "The maker's key signed this evidence. Look at the facts, and decide whether you accept them.",
      ],
      trusted: ["Matches your policy", "The maker's key signed this evidence, and it states what you accepted."],
    } as Partial<Verdict["states"]>,
    refusedByPolicy: (rows: string) => `The evidence is not what you accepted: ${rows}.`,
    nothingSent: "Nothing left this browser.",
    pending: "These files do not show it.",
    unfresh: "Whom this evidence was made for, and when, was not compared.",
    chain: {
      title: "The chain of proof: from the maker's root to the evidence",
      fresh: "in these files",
      key: "What the evidence commits to",
      belongs: "its report data",
    },
    /** What is wrong, where the words for a service do not fit. */
    problem: {
      missing: "The maker's statements that are needed for the check are not among the files.",
      binding: "The evidence was made for another purpose, another key, or other devices.",
    } as Problems,
    /** What to do now. */
    now: {
      missing: "Add them. The details name what is missing.",
      time: "State the moment of the check for old evidence, or get the maker's current statements.",
      stale: "Compare the nonce with the one that you sent.",
      malformed: "Get the file again from its source.",
      unsupported: "Get the evidence in another form.",
    } as Problems,
    doNotRely: "Do not rely on this evidence.",
  },
  // -- files
  kinds: {
    evidence: "evidence",
    endorsement: "endorsements of a maker",
    policy: "policy",
    log: "event log",
    unknown: "not used: of no known form",
    large: "not used: larger than 16 MiB",
    unnamed: "not used: the link does not name it",
  },
  bytes: (count: string) => `${count} bytes`,
  remove: (name: string) => `Remove ${name}`,
  removed: (name: string) => `${name} was removed.`,
  added: (count: number) => `Files added: ${count}.`,
  noEvidence: "There is no evidence among these files yet: nothing was checked.",
  tooMany: (most: number) => `At most ${most} files are taken.`,
  badNonce: "Not taken: a nonce is 1 to 64 bytes, written in hex.",
  badMoment: "Not taken: write the moment as in 2026-06-10T00:00:00Z.",
  applied: "The files were checked with these.",
  judgedAt: (moment: string) => `As of ${moment}.`,
  incomplete: "A part of this page could not be loaded, or was changed on the way: nothing was checked. Load it again.",
  // -- comparison
  compared: {
    first: "First: the files above",
    second: "Second",
    refused: (why: string) => `Nothing is compared: the other evidence was refused. ${why}`,
    firstMissing: "Nothing is compared: the evidence above was not verified.",
    noEvidence: "Nothing is compared: there is no evidence among these files.",
    same: "Both are the same evidence.",
    equal: "The two state the same in everything that a policy judges.",
    differ: (count: number) => `The two differ in ${count} of the values that a policy judges:`,
    chip: { same: "They come from the same chip.", other: "They come from different chips." },
    older: (parts: string) => `The second is older: ${parts}.`,
    newer: (parts: string) => `The second is newer: ${parts}.`,
    mixed: (older: string, newer: string) => `The second is older in ${older}, and newer in ${newer}.`,
    change: (part: string, from: string, to: string) => `${part} ${from} → ${to}`.trim(),
    other: "The second has another value.",
    onlyFirst: "Only the first states it.",
    onlySecond: "Only the second states it.",
    rest: (count: number) => `Everything else that differs (${count})`,
    simulated: "A simulator signed the second.",
  },
  /** Claims that are no row of a policy, by the end of their names. */
  claims: {
    chip_id: "Chip",
    report_data: "Report data: nonce and key",
    host_data: "Data of the host",
    measurement: "Software of the machine",
    report_id: "Number of this run of the machine",
    vmpl: "Privilege level",
    debug: "Debugging",
    nonce: "Nonce",
    ueid: "Device",
    device_identity: "Device certificate",
  } as Readonly<Record<string, string>>,
  // -- links
  link: {
    title: "Link to this check",
    why: "Send the files by another way. Whoever opens the link chooses them, and the page compares their digests.",
    nothing: "There is nothing to share: check evidence first.",
    asks: (count: number) => `The link that you opened names ${count} files. Choose them below.`,
    file: (digest: string) => `File with SHA-256 ${digest}`,
    policy: (digest: string) => `Policy with SHA-256 ${digest}`,
    here: "✓ here",
    missing: "– missing",
    complete: "These are the very files that the link names.",
    moment: (moment: string) => `The link names the moment of the check: ${moment}.`,
    other: (name: string) => `${name} is none of the files that the link names: it is not used.`,
    otherPolicy: (digest: string) => `This is not the policy that the link names, but ${digest}.`,
    waiting: "Nothing was checked yet: files that the link names are missing.",
    ignore: "Ignore the link",
    broken: "The link is damaged; it is ignored.",
  },
  // -- history
  history: {
    none: "This browser has accepted nothing yet, or keeps nothing.",
    accepted: "accepted",
    refused: "refused",
    simulated: "simulated",
    policy: (name: string, version: number, digest: string) => `Policy ${name}, version ${version}, SHA-256 ${digest}`,
    noPolicy: "no policy",
    changed: "Changed since the entry before:",
    unchanged: "Nothing changed but the policy.",
    from: (name: string, before: string, now: string) => `${name}: ${before} → ${now}`,
    remove: "Delete history",
    removeOf: (service: string) => `Delete history of ${service}`,
    sure:
      "The dates and values are deleted. The page then no longer notices that a machine is older than what you " +
      "accepted before. Policies stay.",
    yes: "Yes, delete",
    no: "Keep it",
    removed: "The history was deleted.",
  },
};

export type Alone = typeof alone;
