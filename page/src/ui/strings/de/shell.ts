/** Namen der Elemente des Dokuments, und was gesagt wird, bevor etwas bekannt ist. */

import type { Shell } from "../en/shell";

export const shell: Shell = {
  page: {
    title: "Mit wem sprechen Sie?",
    simulated: "SIMULIERT.",
    simulatedWhy: "Diese Maschine ist Software, und ihre Schlüssel kennt jeder: Über Hardware beweist sie nichts.",
    again: "Neu prüfen",
    ask: "Fragen Sie Ihre Dokumente",
    question: "Frage",
    send: "Fragen",
    documents: "Dokumente: hier wählen, oder irgendwo auf dieser Seite ablegen",
    policy: "Ihre Richtlinie",
    save: "Richtlinie speichern",
    share: "Richtlinie teilen",
    forget: "Richtlinie vergessen",
    load: "Richtlinie laden",
    checked: "Was geprüft wurde",
    allChecks: "Jede Prüfung",
    claims: "Rohe Angaben",
    certificates: "Zertifikatsketten",
    repeat: "Die Prüfung anderswo wiederholen",
    repeatHow: "Speichern Sie den Nachweis und Ihre Richtlinie, und führen Sie dies auf einem beliebigen Rechner aus:",
    saveEvidence: "Nachweis speichern",
    proves: "Was das beweist, und was nicht",
    notProved:
      "Es beweist nicht, dass die Software gut ist, nur dass sie die angenommene ist. Es verbirgt nicht, dass, wann " +
      "und ungefähr wie viel Sie senden. Es ist so vertrauenswürdig wie diese Seite.",
    warning: "Warnung",
    state: "Zustand",
    facts: "Fünf Tatsachen",
    notShown: "Was das nicht zeigt",
    history: "Was dieser Browser angenommen hat",
    log: "Fragen und Antworten",
    uploads: "Hochgeladene Dokumente",
    command: "Befehl",
  },
  intro: (service) =>
    `Diese Seite verlangt von ${service} einen Nachweis und prüft ihn hier, in Ihrem Browser. ` +
    "Bevor Sie die Maschine annehmen, wird nichts gesendet, was Sie eingeben oder auswählen.",
  own: "Die Seite kommt von Ihrem eigenen Rechner (attest page): Der Dienst kann nicht ändern, was sie zeigt.",
  theirs: (service) =>
    "Die Seite kommt vom Dienst selbst, der Ihnen eine andere schicken könnte, die nur vorgibt zu prüfen. " +
    `Sicher gehen Sie mit attest page ${service} auf Ihrem eigenen Rechner.`,
  loading: "Der Rest dieser Seite wird geladen …",
  unfinished: "Ein Teil dieser Seite fehlt oder wurde unterwegs verändert. Annehmen oder senden können Sie nichts.",
  reload: "Seite neu laden",
};
