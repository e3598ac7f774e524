import"./chunk-4KWTLRHW.js";import{L as a}from"./chunk-OECM6QJF.js";import"./chunk-VNJP2C3A.js";import"./chunk-VNNOU2ER.js";export{a as verifyEvidence};
