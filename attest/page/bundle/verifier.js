import"./chunk-4KWTLRHW.js";import{la as a}from"./chunk-A4GBO5ZP.js";export{a as verifyEvidence};
