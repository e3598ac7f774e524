import{a,b,c,d}from"./chunk-N3MNE5EM.js";import"./chunk-4KWTLRHW.js";import"./chunk-XTNGHWF7.js";export{a as appraise,b as loadPolicy,d as propose,c as rows};
