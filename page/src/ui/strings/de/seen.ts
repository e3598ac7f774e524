/** What is seen of the page after the first verdict before a person acts: the decision, the policy, the documents. */

import type { Seen } from "../en/seen";

export const seen: Seen = {
  obstacles: {
    checking: "Zuerst wird die Maschine geprüft.",
    unknown: "Sie haben diese Maschine noch nicht angenommen.",
    unreachable: "Der Dienst antwortet nicht. Ihre Auswahl bleibt erhalten.",
    stopped: "Der Dienst ist beendet: Nichts wird gesendet.",
    refused: "Die Maschine wurde abgelehnt: Nichts wird gesendet.",
    keyless: "Es gibt keinen Schlüssel der Maschine, für den versiegelt werden könnte.",
    unready: "Der Dienst ist nicht bereit.",
    none: "Sie können fragen und Dokumente senden.",
  },
  accept: "Diese Maschine annehmen…",
  acceptChange: "Die Änderung annehmen…",
  each: (count) => `Werte: gemeldet und angenommen (${count})`,
  /** Limits of documents, as the service states them. */
  stated: {
    kinds: (suffixes) => `Der Dienst liest ${suffixes}.`,
    size: (size) => `Ein Dokument hat höchstens ${size}.`,
    count: (count) => `Er bewahrt für Sie höchstens ${count} Dokumente auf.`,
    scan: "Ein Scan braucht zuerst Text: Lassen Sie eine Texterkennung (OCR) darüber laufen.",
  },
  /** The list of documents, before it is read. */
  documentList: {
    title: "Ihre Dokumente",
    why:
      "Gefunden werden sie durch ein Zugriffstoken, das nur dieser Browser hat. Wenn Sie diesen Browser leeren, " +
      "verlieren Sie es und mit ihm Ihre Dokumente: Speichern Sie das Token, oder behalten Sie die Dateien.",
    unread: "Die Liste wird von der Maschine gelesen, sobald Sie sie annehmen.",
    later: "Die Liste wird von der Maschine gelesen, sobald Sie zu ihr kommen.",
    none: "Der Dienst hat keine Dokumente von Ihnen.",
    removeAll: "Alle löschen",
    token: "Zugriffstoken",
  },
  inForce: {
    none: "Sie haben noch nichts angenommen.",
    name: "Name",
    version: "Version",
    digest: "SHA-256",
    author: "Erstellt von",
    here: (date) => `Ihnen, in diesem Browser, am ${date}`,
    file: (names, date) => `der Datei ${names}, von Ihnen geladen am ${date}`,
    link: (date) => `einem Link, den Sie am ${date} geöffnet haben`,
    unknown: "jemandem, der keinen Namen hinterließ",
  },
  chain: {
    title: "Die Kette des Nachweises: von der Wurzel des Herstellers bis zum Schlüssel",
    root: "Wurzel, Teil dieser Seite",
    simulatedRoot: "Wurzel des Simulators",
    proof: "Nachweis der Maschine",
    fresh: "für die Zufallszahl dieser Seite",
    key: "Schlüssel Ihrer Nachrichten",
    belongs: "gehört zu dieser Maschine",
    unfinished: "Nichts zu zeichnen: Der Nachweis wurde abgelehnt, oder es kam noch keiner.",
  },
  trial: {
    offer: "Diese Maschine ist simuliert. Sie können ausprobieren, was die Seite tut, wenn sich eine Maschine ändert:",
    made: "Die Maschine hat sich geändert. Die Seite lehnt sie beim nächsten Blick ab und sendet nichts.",
    changes: {
      "older-firmware": "Ältere Firmware auf die Maschine bringen",
      "other-gpu": "Die GPU austauschen",
    },
    back: "Alles wie vorher",
  },
};
