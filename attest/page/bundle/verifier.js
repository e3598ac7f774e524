import"./chunk-4KWTLRHW.js";import{N as a}from"./chunk-V5F2HFN3.js";import"./chunk-SJYAB5FW.js";import"./chunk-3TZQE4XC.js";export{a as verifyEvidence};
