/** Der Zustand der Maschine, und die fünf Tatsachen: was die Seite zuerst sagt. */

import type { Verdict } from "../en/verdict";

export const verdict: Verdict = {
  proved: {
    genuine:
      "Es beweist, dass der Hersteller der Hardware für diese Maschine unterschrieben hat, soeben und für die " +
      "Zufallszahl dieser Seite, und dass der Schlüssel für Ihre Nachrichten zu dieser Maschine gehört.",
    simulated:
      "Unterschrieben hat ein Simulator, dessen Schlüssel jeder hat. Das beweist nichts, und nichts ist geheim.",
    nothing: "Im Augenblick ist nichts bewiesen.",
  },
  states: {
    checking: ["Prüfung läuft", "Die Maschine soll sich ausweisen. Gesendet wird nur eine Zufallszahl."],
    unknown: [
      "Echt, aber von Ihnen noch nicht angenommen",
      "Die Hardware ist, was sie angibt. Sehen Sie die Tatsachen an, und entscheiden Sie, ob Sie sie annehmen.",
    ],
    trusted: ["Entspricht Ihrer Richtlinie", "Die Hardware ist echt, und auf ihr läuft, was Sie angenommen haben."],
    unreachable: [
      "Nicht erreichbar oder überlastet",
      "Der Dienst antwortet nicht. Daraus folgt nichts: Die Seite behält Ihre Auswahl und fragt erneut.",
    ],
    stopped: [
      "Dienst beendet",
      "Der Dienst hat keine Schlüssel zu Ihren Dokumenten: Die Frist lief ab, oder sie wurden entzogen. " +
        "Nichts wird gesendet.",
    ],
    refused: ["Abgelehnt", ""],
  },
  simulatedStates: {
    unknown: [
      "Simuliert, und von Ihnen noch nicht angenommen",
      "Unterschrieben hat ein Simulator, keine Hardware. Entscheiden Sie, ob Sie ihn für einen Versuch annehmen.",
    ],
    trusted: [
      "Simuliert: entspricht Ihrer Richtlinie",
      "Unterschrieben hat ein Simulator, keine Hardware. Es läuft, was Sie angenommen haben.",
    ],
  },
  serviceSays: (text) => `Der Dienst sagt: ${text}.`,
  lastChecked: (moment) => `Zuletzt geprüft: ${moment}.`,
  checkingNow: "Wird geprüft…",
  serviceIs: (name) => `Dienst: ${name}.`,
  ago: (count, unit) => `vor ${count} ${unit}`,
  sealedTo: (id, digest, hybrid) =>
    `Nachrichten sind für Schlüssel ${id} dieser Maschine versiegelt, ${digest}, ` +
    `${hybrid ? "auch gegen Quantencomputer" : "nur mit X25519: Dieser Browser hat kein ML-KEM"}.`,
  signs: { yes: "ja", no: "nein", open: "nicht bekannt", simulated: "simuliert" },
  facts: {
    chip: {
      title: "Echter Chip",
      yes: (chip) => `Der Schlüssel des Herstellers unterschrieb für diesen ${chip}.`,
      simulated: "Kein Chip: Unterschrieben hat ein Simulator.",
      no: "Kein Schlüssel eines Herstellers bürgt für diese Maschine.",
      firmware: (chip) => `Die Firmware dieses ${chip} ist nicht die angenommene.`,
    },
    memory: {
      title: "Speicher versiegelt, kein Debugging",
      yes: "Der Chip verschlüsselt den Speicher, und niemand kann hineinsehen.",
      simulated: "Ein Simulator hat nichts zu versiegeln.",
      no: "Der Speicher ist lesbar, oder sein Schutz ist nicht der angenommene.",
    },
    gpu: {
      title: "GPU geschützt",
      yes: (gpus) => `${gpus}: vertraulicher Modus, an diese Maschine gebunden.`,
      none: "Zum Nachweis gehört keine GPU.",
      simulated: "Eine simulierte GPU schützt nichts.",
      no: "Eine GPU ist ungeschützt oder nicht die angenommene.",
      unstated: (gpus) => `${gpus}: echt, aber ihr Modus ist nicht bewiesen.`,
    },
    software: {
      title: "Software bekannt",
      yes: (documents) => `Ein unterschriebenes Referenzdokument bürgt für sie: ${documents}.`,
      accepted: "Uns unbekannt: Kein unterschriebenes Dokument bürgt für sie. Genau diese haben Sie angenommen.",
      unknown: "Uns unbekannt: Kein unterschriebenes Dokument bürgt für sie.",
      simulated: "Von einem Simulator gemessen.",
      no: "Das ist nicht die Software, die Sie angenommen haben.",
      unproved: "Was über ihren Bau vorliegt, hält der Prüfung nicht stand.",
    },
    reader: {
      title: "Nur diese Maschine liest, was Sie senden",
      yes: "Ihr Schlüssel ist neu, und der Nachweis gehört zu ihm.",
      simulated: "Die Schlüssel einer simulierten Maschine hat jeder.",
      no: "Der Schlüssel gehört nicht zu dieser Maschine.",
    },
    pending: "Im Augenblick nicht bekannt.",
    unjudged: "Nicht beurteilt, weil der Nachweis abgelehnt wurde.",
  },
  factDetails: {
    chip: "Chip",
    firmware: "Firmware",
    debug: "Debugging",
    off: "aus",
    on: "AN",
    measurement: "Messwert",
    gpus: "GPUs",
    mode: "Vertraulicher Modus",
    developer: "Entwicklerwerkzeuge",
    key: "Schlüssel",
    checks: "Prüfungen",
    passed: (passed, all) => `${passed} von ${all} bestanden`,
  },
  outcomes: { fail: "✕ falsch", warning: "! Warnung", "not evaluated": "– nicht beurteilt", pass: "✓ richtig" },
};
