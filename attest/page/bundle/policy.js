import{a,b,c,d}from"./chunk-CCOLDG2J.js";import"./chunk-4KWTLRHW.js";import"./chunk-LCWFHUMW.js";export{a as appraise,b as loadPolicy,d as propose,c as rows};
