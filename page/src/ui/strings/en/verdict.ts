/** The state of the machine, and the five facts: what the page says first. */

import type { Phase } from "../../state";

type Pair = readonly [string, string];

export const verdict = {
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
  serviceSays: (text: string) => `The service says: ${text}.`,
  lastChecked: (moment: string) => `Last checked ${moment}.`,
  checkingNow: "Checking now…",
  serviceIs: (name: string) => `Service: ${name}.`,
  ago: (count: number, unit: "s" | "min" | "h") => `${count} ${unit} ago`,
  sealedTo: (id: number, digest: string, hybrid: boolean) =>
    `Messages are sealed to key ${id} of this machine, ${digest}, ` +
    `${hybrid ? "also against quantum computers" : "by X25519 alone: this browser has no ML-KEM"}.`,
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
    measurement: "Measurement",
    gpus: "GPUs",
    mode: "Confidential mode",
    developer: "Developer tools",
    key: "Key",
    checks: "Checks",
    passed: (passed: number, all: number) => `${passed} of ${all} passed`,
  },
  outcomes: { fail: "✕ fail", warning: "! warning", "not evaluated": "– not evaluated", pass: "✓ pass" },
};

export type Verdict = typeof verdict;
