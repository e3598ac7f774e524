/** States, facts, decisions, and what is said of questions and documents. */

import type { Phase } from "../../state";

type Pair = readonly [string, string];

export const view = {
  proved: {
    genuine:
      "It proves that the hardware's maker signed for this machine, a moment ago and for this page's own random " +
      "number, and that the key to which your messages are sealed belongs to that machine.",
    simulated:
      "A simulator signed this, whose keys everybody has. It proves nothing about hardware, and nothing is secret.",
    nothing: "At this moment nothing is proved.",
  },
  /** The states: a name, and one sentence. */
  states: {
    checking: ["Checking", "The machine is asked for proof. Nothing but a random number is sent."],
    unknown: [
      "Genuine, but not yet accepted by you",
      "The hardware is what it says. Look at the facts, and decide whether you accept them.",
    ],
    trusted: ["Matches your policy", "The hardware is genuine, and it runs what you accepted."],
    unreachable: [
      "Unreachable or busy",
      "The service gives no answer now. Nothing is concluded from that: the page keeps what you chose and asks again.",
    ],
    stopped: [
      "Service stopped",
      "The service has no keys to your documents: its lease ended, or the key was taken back. Nothing is sent.",
    ],
    refused: ["Refused", ""],
  } as Readonly<Record<Phase, Pair>>,
  simulatedStates: {
    unknown: [
      "Simulated, and not yet accepted by you",
      "A simulator signed this, no hardware. Look at the facts, and decide whether you accept them for a trial.",
    ],
    trusted: ["Simulated: meets your policy", "A simulator signed this, no hardware. It runs what you accepted."],
  } as Readonly<Partial<Record<Phase, Pair>>>,
  refusedByPolicy: (rows: string) => `The machine is not the one that you accepted: ${rows}. Nothing is sent.`,
  trial: {
    offer: "This machine is simulated, so you can try what the page does when a machine changes:",
    made: "The machine has changed. The page refuses it at its next look and sends nothing.",
    changes: { "older-firmware": "Put older firmware on the machine", "other-gpu": "Exchange the GPU" } as Readonly<
      Record<string, string>
    >,
    back: "Put it back as it was",
  },
  serviceSays: (text: string) => `The service says: ${text}.`,
  nothingSent: "Nothing that you typed or chose was sent to it.",
  nothingMore: "Nothing more is sent. What you sent before went only to the machine that you had accepted.",
  details: "Details",
  code: "Code",
  lastChecked: (moment: string) => `Last checked ${moment}.`,
  checkingNow: "Checking now…",
  serviceIs: (name: string) => `Service: ${name}.`,
  ago: (count: number, unit: "s" | "min" | "h") => `${count} ${unit} ago`,
  sealedTo: (id: number, digest: string, hybrid: boolean) =>
    `Messages are sealed to key ${id} of this machine, ${digest}, ` +
    `${hybrid ? "also against quantum computers" : "by X25519 alone: this browser has no ML-KEM"}.`,
  obstacles: {
    checking: "The machine is being checked first.",
    unknown: "You have not accepted this machine yet.",
    unreachable: "The service gives no answer now. What you chose is kept.",
    stopped: "The service has stopped: nothing is sent.",
    refused: "The machine was refused: nothing is sent.",
    keyless: "There is no key of the machine that could be sealed to.",
    unready: "The service is not ready.",
    none: "You may ask and upload.",
  },
  // -- the five facts
  signs: { yes: "yes", no: "no", open: "not known", simulated: "simulated" },
  facts: {
    chip: {
      title: "Genuine chip",
      yes: (chip: string) => `The maker's key signed for this ${chip}.`,
      simulated: "No chip: a simulator signed.",
      no: "No maker's key vouches for this machine.",
      firmware: (chip: string) => `The firmware of this ${chip} is not what you accepted.`,
    },
    memory: {
      title: "Memory sealed, debugging off",
      yes: "The chip encrypts the memory, and nobody can debug it.",
      simulated: "A simulator has nothing to seal.",
      no: "The memory can be read, or its protection is not what you accepted.",
    },
    gpu: {
      title: "GPU protected",
      yes: (gpus: string) => `${gpus}: confidential mode, bound to this machine.`,
      none: "No GPU is part of the proof.",
      simulated: "A simulated GPU protects nothing.",
      no: "A GPU is unprotected, or not what you accepted.",
      unstated: (gpus: string) => `${gpus}: genuine, but its mode is not proved.`,
    },
    software: {
      title: "Software known",
      yes: (documents: string) => `Vouched for by a signed reference document: ${documents}.`,
      accepted: "Unknown to us: no signed document vouches for it. You accepted this exact software.",
      unknown: "Unknown to us: no signed document vouches for it.",
      simulated: "Measured by a simulator.",
      no: "This is not the software that you accepted.",
      unproved: "What was given of its build does not hold.",
    },
    reader: {
      title: "Only this machine can read what you send",
      yes: "Its key is new, and the proof belongs to it.",
      simulated: "Everybody has a simulated machine's keys.",
      no: "The key does not belong to this machine.",
    },
    pending: "Not known at this moment.",
    unjudged: "Not judged, because the proof was refused.",
  },
  factDetails: {
    chip: "Chip",
    firmware: "Firmware",
    debug: "Debugging",
    off: "off",
    on: "ON",
    memory: "Encryption",
    measurement: "Measurement",
    gpus: "GPUs",
    mode: "Confidential mode",
    developer: "Developer tools",
    key: "Key",
    nonce: "Random number of this page",
    checks: "Checks",
    passed: (passed: number, all: number) => `${passed} of ${all} passed`,
  },
  // -- the decision
  accept: "Accept this machine…",
  acceptChange: "Accept the change…",
  confirm: {
    title: (count: number) => `You accept ${count} values. These matter most:`,
    titleFew: "This is what you accept:",
    yes: "Yes, I accept",
    each: "Look at each value",
    instead: (what: string) => `The machine was refused by your policy. ${what} takes its place:`,
    take: "Yes, use it",
    word: "accept",
    wordLabel: (word: string) => `To accept less or something else than before, type the word “${word}”:`,
    wordMissing: (word: string) => `Not taken: type the word “${word}” first.`,
    older: (before: string, date: string) => `older than what you accepted on ${date}: ${before}`,
    other: (date: string) => `not what you accepted on ${date}`,
  },
  each: (count: number) => `Values: reported and accepted (${count})`,
  table: { what: "What", reported: "Reported now", policy: "Your policy", result: "Result" },
  none: "none",
  trust: "I accept this",
  choices: { exact: "only this very value", newer: "this version or newer ones" },
  how: (row: string) => `How to accept: ${row}`,
  tickAll: "Tick all",
  tickAllTitle: "You are about to tick every value. These matter most:",
  tickAllYes: "Yes, tick all",
  use: "Use what I ticked as my policy",
  notYet: (rows: string) => `Not yet: you have not accepted ${rows}.`,
  nothingVerified: "Nothing was verified yet.",
  firmwareAge: {
    since: (component: string, level: string, published: string, advisory: string) =>
      `${component} ${level} has the fix of ${advisory}, published ${published}.`,
    unknown: (component: string, level: string) => `${component} ${level}: no known bulletin is about older levels.`,
    later: (component: string, level: string, fixes: string, published: string) =>
      `${component} ${level} (${published}) fixed ${fixes}.`,
    current: "No later fix is known to this page.",
  },
  taken: "This is your policy now.",
  takenFrom: (names: string) => `${names} is your policy now.`,
  notTaken: (why: string) => `Not taken: ${why}`,
  forgotten: "There is no policy any more; nothing is sent.",
  // -- the policy in force
  inForce: {
    none: "You have accepted nothing yet.",
    name: "Name",
    version: "Version",
    digest: "SHA-256",
    author: "Made by",
    here: (date: string) => `you, in this browser, on ${date}`,
    file: (names: string, date: string) => `the file ${names}, loaded by you on ${date}`,
    link: (date: string) => `a link that you opened on ${date}`,
    unknown: "somebody who left no name",
    demands: "Demands",
  },
  shared: {
    title: "Link to this policy",
    why: (digest: string) => `The link holds the whole policy. Compare its SHA-256 by another way: ${digest}`,
    copy: "Copy link",
    copied: "Copied.",
    offer: (name: string, version: number, digest: string) =>
      `The link that you opened brings a policy: ${name}, version ${version}, SHA-256 ${digest}. ` +
      "Use it only if that is the digest that its author told you.",
    use: "Use this policy",
    ignore: "Ignore it",
    broken: "The link brings a policy that is not the one that it names; it is ignored.",
  },
  // -- questions and documents
  asking: "Asking…",
  uploading: "checking the machine…",
  sealedKey: (id: number, digest: string) => `Sealed to key ${id}, ${digest}`,
  quotedFrom: "Quoted from",
  writtenBy: (model: string) => `Written by ${model}`,
  unnamedModel: "a language model that the service does not name",
  modelWhere: "where it runs is not stated",
  modelWeights: "how its weights are known is not stated",
  notFound: "Found nothing near enough to your question in your documents.",
  page_: (number: string) => `, page ${number}`,
  passages: "Passages",
  passage: (number: string) => `Passage ${number}`,
  notVerbatim: "Not word for word in the passage that it names.",
  unknownPassage: (number: string) => `passage ${number} was not shown`,
  pageOf: (done: string, all: string) => `page ${done}${all && ` of ${all}`}`,
  passageOf: (done: string, all: string) => `passage ${done}${all && ` of ${all}`}`,
  progress: (name: string) => `Progress of ${name}`,
  stored: "stored",
  waiting: (seconds: number) => `the service is busy; the document is kept here, next try in ${seconds} s`,
  refusedByService: (text: string) => `Refused by the service: ${text}`,
  cut: "The answer was cut off.",
  // -- the badge
  badge: {
    trusted: "Matches this site's policy",
    trustedSimulated: "Simulated: meets this site's policy",
    unknown: "Genuine; no policy was applied",
    unknownSimulated: "Simulated; no policy was applied",
    refused: "Machine refused",
    stopped: "The service has stopped",
    unreachable: "Service unreachable or busy",
    checking: "Checking the service",
    trustedWhy: "The hardware is genuine, and it runs what this site's policy accepts.",
    simulatedWhy: "A simulator signed this, no hardware: it proves nothing.",
    unknownWhy: "The hardware is what it says. Whether it runs what it should is not judged here.",
    refusedByPolicy: (rows: string) => `The machine is not what this site's policy accepts: ${rows}.`,
    all: "Everything that was checked",
  },
};

export type View = typeof view;
