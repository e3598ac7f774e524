import{a,b,c,d,e,f}from"./chunk-YVABOQRB.js";import"./chunk-LNEQLFZB.js";export{f as Channel,a as KEM_HYBRID,b as KEM_X25519,d as askForKeys,e as recordOf,c as spokenKems};
