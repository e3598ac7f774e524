/** What is said of documents: before they are sent, on their way, and once they are stored. */

export const documents = {
  limits: {
    tooLarge: (size: string, most: string) => `Not sent: it has ${size}, and the service takes at most ${most}.`,
    empty: "Not sent: the file is empty.",
    unreadable: "Not sent: the browser cannot read it. A folder cannot be sent, only its files.",
    otherKind: (suffixes: string) => `Not sent: the service does not read this kind of file, only ${suffixes}.`,
    notThatKind: (suffix: string) => `Not sent: its name ends in ${suffix}, but its content is of another kind.`,
  },
  upload: {
    queued: "waits for its turn",
    sent: (done: string, all: string) => `${done} of ${all} sent`,
    left: (time: string) => `about ${time} left`,
    cancel: "Cancel",
    cancelNamed: (name: string) => `Cancel ${name}`,
    cancelledBefore: "cancelled; nothing of it was sent",
    cancelledOnItsWay: "cancelled on its way; it is stored only if the list below names it",
    kept: {
      refused:
        "the document is kept here, and nothing of it is sent now: the machine was refused. " +
        "It is sent once you accept the machine.",
      unknown:
        "the document is kept here, and nothing of it is sent now: you accept no machine. " +
        "It is sent once you accept one.",
      stopped:
        "the document is kept here, and nothing of it is sent now: the service has stopped. " +
        "It is sent once the service has its keys again.",
      silent: "the document is kept here: the service gives no answer now. It is sent once there is one.",
    },
    dropHere: "Drop: the files are sent sealed to the machine that you accepted.",
    dropClosed: "Nothing is sent now: you accept no machine at this moment.",
  },
  questionBack: "Your question stands in its field again.",
  stock: {
    reading: "The list is being read…",
    unreadable: "The list could not be read.",
    readAgain: "Read the list again",
    count: (count: number, most: string) => `${count}${most && ` of at most ${most}`}`,
    pages: (count: number) => (count === 1 ? "1 page" : `${count} pages`),
    added: (moment: string) => `stored ${moment}`,
    remove: "Delete",
    removeNamed: (name: string) => `Delete ${name}`,
    removeTitle: (name: string) => `Delete ${name}?`,
    removeAllTitle: (count: number) => `Delete all documents (${count})?`,
    effect:
      "The service erases text, passages, search index and name from its database and its memory, and cannot bring " +
      "them back. Encrypted copies, such as backups of its operator, stay until they are erased; only the service's " +
      "key opens them. Answers on this page and the files on your computer stay.",
    yes: "Yes, delete",
    no: "Keep",
    removed: (name: string) => `${name} is deleted.`,
    removedAll: "All your documents are deleted.",
    gone: (name: string) => `${name} was not there any more.`,
    token: {
      why:
        "The token opens your documents in another browser. Anyone who has it can read and delete them: " +
        "keep the file as you keep the documents. It is sent only to the machine that you accepted.",
      save: "Save access token",
      load: "Load access token",
      saved: "The token was handed to you as a file.",
      none: "There is no token yet: it is made with the first message.",
      loaded: "This browser has the token of the file now.",
      same: "This browser has that token already.",
      invalid: "Not loaded: the file holds no access token of this page.",
      elsewhere: (service: string) => `Not loaded: the token is for another service, ${service}.`,
      busy: "Not loaded: documents are on their way. Wait for them, or cancel them.",
      replaceTitle: "Replace the token of this browser?",
      replace:
        "The documents that the present token opens stay with the service, but this browser opens them no more. " +
        "Save the present token first if you need them.",
      replaceYes: "Yes, replace it",
    },
  },
};

export type Documents = typeof documents;
