import{a,b,c,d,e,f}from"./chunk-IGVERFEN.js";import"./chunk-BNU2FSVN.js";export{f as Channel,a as KEM_HYBRID,b as KEM_X25519,d as askForKeys,e as recordOf,c as spokenKems};
