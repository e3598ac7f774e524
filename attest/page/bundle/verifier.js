import"./chunk-4KWTLRHW.js";import{y as a}from"./chunk-HVPAJU4P.js";import"./chunk-J23JDXA7.js";import"./chunk-BF5GGAM3.js";export{a as verifyEvidence};
