import"./chunk-4KWTLRHW.js";import{N as a}from"./chunk-ST32HSMG.js";import"./chunk-SJYAB5FW.js";import"./chunk-3TZQE4XC.js";export{a as verifyEvidence};
