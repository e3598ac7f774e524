import"./chunk-4KWTLRHW.js";import{x as a}from"./chunk-O7XLJDWD.js";import"./chunk-3OQITQXU.js";import"./chunk-6NLJTLEE.js";export{a as verifyEvidence};
