import"./chunk-4KWTLRHW.js";import{M as a}from"./chunk-4RW3MT3K.js";import"./chunk-RNHR3PSV.js";import"./chunk-Y5KJJHR7.js";export{a as verifyEvidence};
