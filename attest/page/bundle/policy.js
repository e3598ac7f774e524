import{a,b,c,d}from"./chunk-3OMPZSQP.js";import"./chunk-4KWTLRHW.js";import"./chunk-KE5F27QS.js";export{a as appraise,b as loadPolicy,d as propose,c as rows};
