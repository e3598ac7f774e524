import"./chunk-4KWTLRHW.js";import{ka as a}from"./chunk-U5223AB4.js";export{a as verifyEvidence};
