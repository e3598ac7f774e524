import"./chunk-4KWTLRHW.js";import{x as a}from"./chunk-RWZ4AEP7.js";import"./chunk-SWA7TKKI.js";import"./chunk-6NLJTLEE.js";export{a as verifyEvidence};
