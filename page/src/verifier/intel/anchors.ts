/** The root of all quotes of Intel. */

import type { VendorRoot } from "../anchors";

export const INTEL_ROOTS: readonly VendorRoot[] = [
  {
    name: "Intel SGX Root CA",
    product: "SGX",
    pin: "a0af031289f5d5d4132f9186068a7fc13628633ba235777472e29b6b6c67a49e",
    simulatedPin: "3dd59826230b942f0a45738183b131c27abed7cdc77dd808fd9c4b03bf8be90e",
    notBefore: "2018-05-21T10:45:10Z",
    notAfter: "2049-12-31T23:59:59Z",
    subject: [
      ["commonName", "Intel SGX Root CA"],
      ["organization", "Intel Corporation"],
      ["locality", "Santa Clara"],
      ["state", "CA"],
      ["country", "US"],
    ],
    key: {
      curve: "P-256",
      point: "C6nEwMDIYZOj/iPWsCzaEKi71OiOSLRFhWGjbnBVJfVnkY4u3IjkDYYL0MxO4mqsyYjlBalTVYxFP2sJBK5zlA==",
    },
  },
];
