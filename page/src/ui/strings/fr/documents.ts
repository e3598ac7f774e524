/** Ce qui est dit des documents : avant l’envoi, en chemin, et une fois enregistrés. */

import type { Documents } from "../en/documents";

export const documents: Documents = {
  limits: {
    tooLarge: (size, most) => `Non envoyé : il a ${size}, et le service prend au plus ${most}.`,
    empty: "Non envoyé : le fichier est vide.",
    unreadable: "Non envoyé : le navigateur ne peut pas le lire. Un dossier ne s’envoie pas, seulement ses fichiers.",
    otherKind: (suffixes) => `Non envoyé : le service ne lit pas ce type de fichier, seulement ${suffixes}.`,
    notThatKind: (suffix) => `Non envoyé : son nom finit par ${suffix}, mais son contenu est d’un autre type.`,
  },
  upload: {
    queued: "attend son tour",
    sent: (done, all) => `${done} sur ${all} envoyés`,
    left: (time) => `encore ${time} environ`,
    cancel: "Annuler",
    cancelNamed: (name) => `Annuler ${name}`,
    cancelledBefore: "annulé ; rien n’en a été envoyé",
    cancelledOnItsWay: "annulé en chemin ; il n’est enregistré que si la liste ci-dessous le nomme",
    kept: {
      refused:
        "le document est gardé ici, et rien n’en est envoyé maintenant : la machine a été refusée. " +
        "Il est envoyé dès que vous acceptez la machine.",
      unknown:
        "le document est gardé ici, et rien n’en est envoyé maintenant : vous n’acceptez aucune machine. " +
        "Il est envoyé dès que vous l’acceptez.",
      stopped:
        "le document est gardé ici, et rien n’en est envoyé maintenant : le service est arrêté. " +
        "Il est envoyé dès que le service a de nouveau ses clés.",
      silent: "le document est gardé ici : le service ne répond pas en ce moment. Il est envoyé dès qu’il répond.",
    },
    dropHere: "Déposez : les fichiers sont envoyés scellés à la machine que vous avez acceptée.",
    dropClosed: "Rien n’est envoyé maintenant : vous n’acceptez aucune machine en ce moment.",
  },
  questionBack: "Votre question est de nouveau dans le champ.",
  stock: {
    reading: "Lecture de la liste…",
    unreadable: "La liste n’a pas pu être lue.",
    readAgain: "Relire la liste",
    count: (count, most) => `${count}${most && ` sur ${most} au plus`}`,
    pages: (count) => (count === 1 ? "1 page" : `${count} pages`),
    added: (moment) => `enregistré ${moment}`,
    remove: "Supprimer",
    removeNamed: (name) => `Supprimer ${name}`,
    removeTitle: (name) => `Supprimer ${name} ?`,
    removeAllTitle: (count) => `Supprimer tous les documents (${count}) ?`,
    effect:
      "Le service efface texte, passages, index de recherche et nom de sa base et de sa mémoire, et ne peut pas " +
      "les rétablir. Les copies chiffrées, comme les sauvegardes de l’exploitant, restent jusqu’à leur effacement ; " +
      "seule la clé du service les ouvre. Les réponses sur cette page et les fichiers de votre ordinateur restent.",
    yes: "Oui, supprimer",
    no: "Garder",
    removed: (name) => `${name} est supprimé.`,
    removedAll: "Tous vos documents sont supprimés.",
    gone: (name) => `${name} n’était plus là.`,
    token: {
      why:
        "Le jeton ouvre vos documents dans un autre navigateur. Qui l’a peut les lire et les supprimer : gardez le " +
        "fichier comme vous gardez les documents. Il n’est envoyé qu’à la machine que vous avez acceptée.",
      save: "Enregistrer le jeton d’accès",
      load: "Charger un jeton d’accès",
      saved: "Le jeton vous a été remis dans un fichier.",
      none: "Il n’y a pas encore de jeton : il est créé avec le premier message.",
      loaded: "Ce navigateur a maintenant le jeton du fichier.",
      same: "Ce navigateur a déjà ce jeton.",
      invalid: "Non chargé : le fichier ne contient pas de jeton d’accès de cette page.",
      elsewhere: (service) => `Non chargé : le jeton est pour un autre service, ${service}.`,
      busy: "Non chargé : des documents sont en chemin. Attendez, ou annulez-les.",
      replaceTitle: "Remplacer le jeton de ce navigateur ?",
      replace:
        "Les documents que le jeton actuel ouvre restent au service, mais ce navigateur ne les ouvre plus. " +
        "Enregistrez d’abord le jeton actuel si vous en avez besoin.",
      replaceYes: "Oui, le remplacer",
    },
  },
};
