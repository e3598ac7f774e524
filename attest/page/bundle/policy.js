import{a,b,c,d}from"./chunk-IM2YWGXC.js";import"./chunk-4KWTLRHW.js";import"./chunk-PNVDMZ6K.js";export{a as appraise,b as loadPolicy,d as propose,c as rows};
