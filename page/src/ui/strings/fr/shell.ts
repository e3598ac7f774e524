/** Les noms des éléments du document, et ce qui est dit avant que rien ne soit connu. */

import type { Shell } from "../en/shell";

export const shell: Shell = {
  page: {
    title: "À qui parlez-vous ?",
    simulated: "SIMULÉ.",
    simulatedWhy: "Cette machine est un logiciel, et chacun a ses clés : elle ne prouve rien sur le matériel.",
    again: "Vérifier à nouveau",
    ask: "Interrogez vos documents",
    question: "Question",
    send: "Demander",
    documents: "Documents : choisissez-les, ou déposez-les n’importe où sur cette page",
    policy: "Votre politique",
    save: "Enregistrer la politique",
    share: "Partager la politique",
    forget: "Oublier la politique",
    load: "Charger une politique",
    checked: "Ce qui a été vérifié",
    allChecks: "Chaque vérification",
    claims: "Données brutes",
    certificates: "Chaînes de certificats",
    repeat: "Répéter la vérification ailleurs",
    repeatHow: "Enregistrez la preuve et votre politique, puis exécutez ceci sur n’importe quel ordinateur :",
    saveEvidence: "Enregistrer la preuve",
    proves: "Ce que cela prouve, et ce que cela ne prouve pas",
    notProved:
      "Cela ne prouve pas que le logiciel est bon, seulement que c’est celui qui a été accepté. Cela ne cache pas " +
      "que, quand et à peu près combien vous envoyez. C’est aussi fiable que cette page.",
    warning: "Avertissement",
    state: "État",
    facts: "Cinq faits",
    notShown: "Ce que cela ne montre pas",
    history: "Ce que ce navigateur a accepté",
    log: "Questions et réponses",
    uploads: "Documents envoyés",
    command: "Commande",
  },
  intro: (service) =>
    `Cette page demande à ${service} de prouver ce qu’il est, et vérifie la preuve ici, dans votre navigateur. ` +
    "Tant que vous n’acceptez pas la machine, rien de ce que vous saisissez ou choisissez n’est envoyé.",
  own: "La page vient de votre propre ordinateur (attest page) : le service ne peut pas changer ce qu’elle montre.",
  theirs: (service) =>
    "La page vient du service lui-même, qui pourrait en envoyer une autre qui fait semblant de vérifier. " +
    `Pour en être sûr, exécutez attest page ${service} sur votre propre ordinateur.`,
  loading: "Le reste de cette page se charge…",
  unfinished: "Une partie de cette page manque ou a été modifiée en chemin. Vous ne pouvez rien accepter ni envoyer.",
  reload: "Recharger la page",
};
