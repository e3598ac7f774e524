import"./chunk-4KWTLRHW.js";import{L as a}from"./chunk-TWBDRHTS.js";import"./chunk-RNHR3PSV.js";import"./chunk-Y5KJJHR7.js";export{a as verifyEvidence};
