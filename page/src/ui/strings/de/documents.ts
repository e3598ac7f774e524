/** Was über Dokumente gesagt wird: bevor sie gesendet werden, unterwegs, und wenn sie gespeichert sind. */

import type { Documents } from "../en/documents";

export const documents: Documents = {
  limits: {
    tooLarge: (size, most) => `Nicht gesendet: Es hat ${size}, und der Dienst nimmt höchstens ${most}.`,
    empty: "Nicht gesendet: Die Datei ist leer.",
    unreadable:
      "Nicht gesendet: Der Browser kann es nicht lesen. Ein Ordner lässt sich nicht senden, nur seine Dateien.",
    otherKind: (suffixes) => `Nicht gesendet: Diese Art Datei liest der Dienst nicht, nur ${suffixes}.`,
    notThatKind: (suffix) => `Nicht gesendet: Der Name endet auf ${suffix}, der Inhalt ist aber von anderer Art.`,
  },
  upload: {
    queued: "wartet, bis es an der Reihe ist",
    sent: (done, all) => `${done} von ${all} gesendet`,
    left: (time) => `noch etwa ${time}`,
    cancel: "Abbrechen",
    cancelNamed: (name) => `Abbrechen: ${name}`,
    cancelledBefore: "abgebrochen; nichts davon wurde gesendet",
    cancelledOnItsWay: "unterwegs abgebrochen; gespeichert ist es nur, wenn die Liste unten es nennt",
    kept: {
      refused:
        "das Dokument bleibt hier, und nichts davon wird jetzt gesendet: Die Maschine wurde abgelehnt. " +
        "Es wird gesendet, sobald Sie die Maschine annehmen.",
      unknown:
        "das Dokument bleibt hier, und nichts davon wird jetzt gesendet: Sie haben keine Maschine angenommen. " +
        "Es wird gesendet, sobald Sie sie annehmen.",
      stopped:
        "das Dokument bleibt hier, und nichts davon wird jetzt gesendet: Der Dienst ist beendet. " +
        "Es wird gesendet, sobald er seine Schlüssel wieder hat.",
      silent: "das Dokument bleibt hier: Der Dienst antwortet gerade nicht. Es wird gesendet, sobald er antwortet.",
    },
    dropHere: "Ablegen: Die Dateien werden versiegelt an die Maschine gesendet, die Sie angenommen haben.",
    dropClosed: "Jetzt wird nichts gesendet: Sie haben gerade keine Maschine angenommen.",
  },
  questionBack: "Ihre Frage steht wieder im Feld.",
  stock: {
    reading: "Die Liste wird gelesen…",
    unreadable: "Die Liste konnte nicht gelesen werden.",
    readAgain: "Liste neu lesen",
    count: (count, most) => `${count}${most && ` von höchstens ${most}`}`,
    pages: (count) => (count === 1 ? "1 Seite" : `${count} Seiten`),
    added: (moment) => `gespeichert ${moment}`,
    remove: "Löschen",
    removeNamed: (name) => `Löschen: ${name}`,
    removeTitle: (name) => `${name} löschen?`,
    removeAllTitle: (count) => `Alle Dokumente löschen (${count})?`,
    effect:
      "Der Dienst löscht Text, Stellen, Suchindex und Namen aus seiner Datenbank und seinem Speicher und kann sie " +
      "nicht zurückholen. Verschlüsselte Kopien, etwa Sicherungen des Betreibers, bleiben, bis sie gelöscht werden; " +
      "nur der Schlüssel des Dienstes öffnet sie. Antworten auf dieser Seite und Ihre eigenen Dateien bleiben.",
    yes: "Ja, löschen",
    no: "Behalten",
    removed: (name) => `${name} ist gelöscht.`,
    removedAll: "Alle Ihre Dokumente sind gelöscht.",
    gone: (name) => `${name} war nicht mehr da.`,
    token: {
      why:
        "Das Token öffnet Ihre Dokumente in einem anderen Browser. Wer es hat, kann sie lesen und löschen: Bewahren " +
        "Sie die Datei so auf wie die Dokumente. Gesendet wird es nur an die Maschine, die Sie angenommen haben.",
      save: "Zugriffstoken speichern",
      load: "Zugriffstoken laden",
      saved: "Sie haben das Token als Datei erhalten.",
      none: "Es gibt noch kein Token: Es entsteht mit der ersten Nachricht.",
      loaded: "Dieser Browser hat jetzt das Token aus der Datei.",
      same: "Dieser Browser hat dieses Token schon.",
      invalid: "Nicht geladen: Die Datei enthält kein Zugriffstoken dieser Seite.",
      elsewhere: (service) => `Nicht geladen: Das Token ist für einen anderen Dienst, ${service}.`,
      busy: "Nicht geladen: Dokumente sind unterwegs. Warten Sie, oder brechen Sie ab.",
      replaceTitle: "Das Token dieses Browsers ersetzen?",
      replace:
        "Die Dokumente, die das jetzige Token öffnet, bleiben beim Dienst, aber der Browser öffnet sie nicht mehr. " +
        "Speichern Sie zuerst das jetzige Token, wenn Sie sie brauchen.",
      replaceYes: "Ja, ersetzen",
    },
  },
};
