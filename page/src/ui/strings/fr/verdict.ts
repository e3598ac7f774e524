/** L’état de la machine, et les cinq faits : ce que la page dit d’abord. */

import type { Verdict } from "../en/verdict";

export const verdict: Verdict = {
  proved: {
    genuine:
      "Cela prouve que le fabricant du matériel a signé pour cette machine, à l’instant et pour le nombre aléatoire " +
      "de cette page, et que la clé de vos messages appartient à cette machine.",
    simulated:
      "Un simulateur a signé, dont chacun a les clés. Cela ne prouve rien sur le matériel, et rien n’est secret.",
    nothing: "En ce moment, rien n’est prouvé.",
  },
  states: {
    checking: ["Vérification en cours", "La machine doit se prouver. Seul un nombre aléatoire est envoyé."],
    unknown: [
      "Authentique, mais pas encore acceptée par vous",
      "Le matériel est ce qu’il dit. Regardez les faits, et décidez si vous les acceptez.",
    ],
    trusted: ["Conforme à votre politique", "Le matériel est authentique, et il exécute ce que vous avez accepté."],
    unreachable: [
      "Injoignable ou occupé",
      "Le service ne répond pas. Rien n’en est conclu : la page garde ce que vous avez choisi et demande à nouveau.",
    ],
    stopped: [
      "Service arrêté",
      "Le service n’a plus les clés de vos documents : son bail a pris fin, ou elles ont été reprises. " +
        "Rien n’est envoyé.",
    ],
    refused: ["Refusée", ""],
  },
  simulatedStates: {
    unknown: [
      "Simulée, et pas encore acceptée par vous",
      "Un simulateur a signé, pas du matériel. Décidez si vous l’acceptez pour un essai.",
    ],
    trusted: [
      "Simulée : conforme à votre politique",
      "Un simulateur a signé, pas du matériel. Il exécute ce que vous avez accepté.",
    ],
  },
  serviceSays: (text) => `Le service dit : ${text}.`,
  lastChecked: (moment) => `Dernière vérification : ${moment}.`,
  checkingNow: "Vérification…",
  serviceIs: (name) => `Service : ${name}.`,
  ago: (count, unit) => `il y a ${count} ${unit}`,
  sealedTo: (id, digest, hybrid) =>
    `Les messages sont scellés pour la clé ${id} de cette machine, ${digest}, ` +
    `${hybrid ? "aussi contre les ordinateurs quantiques" : "par X25519 seul : ce navigateur n’a pas ML-KEM"}.`,
  signs: { yes: "oui", no: "non", open: "inconnu", simulated: "simulé" },
  facts: {
    chip: {
      title: "Puce authentique",
      yes: (chip) => `La clé du fabricant a signé pour cette puce ${chip}.`,
      simulated: "Pas de puce : un simulateur a signé.",
      no: "Aucune clé de fabricant ne répond de cette machine.",
      firmware: (chip) => `Le micrologiciel de cette puce ${chip} n’est pas celui que vous avez accepté.`,
    },
    memory: {
      title: "Mémoire scellée, débogage coupé",
      yes: "La puce chiffre la mémoire, et personne ne peut la déboguer.",
      simulated: "Un simulateur n’a rien à sceller.",
      no: "La mémoire est lisible, ou sa protection n’est pas celle que vous avez acceptée.",
    },
    gpu: {
      title: "GPU protégé",
      yes: (gpus) => `${gpus} : mode confidentiel, lié à cette machine.`,
      none: "Aucun GPU ne fait partie de la preuve.",
      simulated: "Un GPU simulé ne protège rien.",
      no: "Un GPU n’est pas protégé, ou n’est pas celui que vous avez accepté.",
      unstated: (gpus) => `${gpus} : authentique, mais son mode n’est pas prouvé.`,
    },
    software: {
      title: "Logiciel connu",
      yes: (documents) => `Un document de référence signé en répond : ${documents}.`,
      accepted: "Inconnu de nous : aucun document signé n’en répond. Vous avez accepté exactement celui-ci.",
      unknown: "Inconnu de nous : aucun document signé n’en répond.",
      simulated: "Mesuré par un simulateur.",
      no: "Ce n’est pas le logiciel que vous avez accepté.",
      unproved: "Ce qui est donné de sa construction ne résiste pas à la vérification.",
    },
    reader: {
      title: "Seule cette machine lit ce que vous envoyez",
      yes: "Sa clé est neuve, et la preuve lui appartient.",
      simulated: "Chacun a les clés d’une machine simulée.",
      no: "La clé n’appartient pas à cette machine.",
    },
    pending: "Inconnu en ce moment.",
    unjudged: "Non jugé, car la preuve a été refusée.",
  },
  factDetails: {
    chip: "Puce",
    firmware: "Micrologiciel",
    debug: "Débogage",
    off: "coupé",
    on: "ACTIF",
    measurement: "Mesure",
    gpus: "GPU",
    mode: "Mode confidentiel",
    developer: "Outils de développement",
    key: "Clé",
    checks: "Vérifications",
    passed: (passed, all) => `${passed} sur ${all} réussies`,
  },
  outcomes: { fail: "✕ échec", warning: "! attention", "not evaluated": "– non jugé", pass: "✓ réussi" },
};
