import{a,b}from"./chunk-BXWNNUJI.js";import"./chunk-SJYAB5FW.js";import"./chunk-3TZQE4XC.js";export{a as appraise,b as loadPolicy};
