/** The AMD Root Keys, each of a product line. */

import type { Name, VendorRoot } from "../anchors";

type ArkDates = Pick<VendorRoot, "pin" | "simulatedPin" | "notBefore" | "notAfter">;

function ark(product: string, dates: ArkDates): VendorRoot {
  const name = `ARK-${product}`;
  const subject: Name = [
    ["unit", "Engineering"],
    ["country", "US"],
    ["locality", "Santa Clara"],
    ["state", "CA"],
    ["organization", "Advanced Micro Devices"],
    ["commonName", name],
  ];
  return { name, product, subject, ...dates };
}

export const AMD_ROOTS: readonly VendorRoot[] = [
  ark("Milan", {
    pin: "9f056bee44377e29308cb5ffa895bdfb62d18881fa6bed8d6f075b0204089cb9",
    simulatedPin: "13ba5621789593ad7c6321447b6ee4d70f649eebb9c5da086c2d223ebe103ea1",
    notBefore: "2020-10-22T17:23:05Z",
    notAfter: "2045-10-22T17:23:05Z",
  }),
  ark("Genoa", {
    pin: "429a69c9422aa258ee4d8db5fcda9c6470ef15f8cd5a9cebd6cbc7d90b863831",
    simulatedPin: "74a79e6d4c96d0c50f1794d37e797bd5c71a05a3d007d62c9e7a08c278ed21f0",
    notBefore: "2022-01-26T15:34:37Z",
    notAfter: "2047-01-26T15:34:37Z",
  }),
  ark("Turin", {
    pin: "4f125410563a2ab9a50356f9243f6fe0b6f73de98603f53f90339c70e9d7ad08",
    simulatedPin: "6fb0143057c0690c9e4c528bd9a80a257f08a7ae6da4a073169dfba0b6aaa128",
    notBefore: "2023-05-15T20:03:12Z",
    notAfter: "2048-05-15T20:03:12Z",
  }),
];
