import{a,b,c,d}from"./chunk-P2DUC547.js";import"./chunk-4KWTLRHW.js";import"./chunk-C5X4KYHW.js";export{a as appraise,b as loadPolicy,d as propose,c as rows};
