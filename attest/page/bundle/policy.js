import{a,b,c,d}from"./chunk-M6FZSKOA.js";import"./chunk-4KWTLRHW.js";import"./chunk-RA4AJB3G.js";export{a as appraise,b as loadPolicy,d as propose,c as rows};
