import"./chunk-4KWTLRHW.js";import{la as a}from"./chunk-RA4AJB3G.js";export{a as verifyEvidence};
