/** The roots of NVIDIA: of its devices, and of what it publishes of their firmware. */

import type { VendorRoot } from "../anchors";

export const DEVICE_ROOTS: readonly VendorRoot[] = [
  {
    name: "NVIDIA Device Identity CA",
    product: "NVIDIA",
    pin: "a90c4eb5acfd3e3d03a25db6a26b84f720ad0503196c627c21ddd48dd85b06a4",
    simulatedPin: "e0f6187a76af3c041fe805cf7068302a8672bedd2cb3b30b9740ec504e4887bd",
    notBefore: "2021-11-05T00:00:00Z",
    notAfter: "9999-12-31T23:59:59Z",
    subject: [
      ["commonName", "NVIDIA Device Identity CA"],
      ["organization", "NVIDIA"],
    ],
    key: {
      curve: "P-384",
      point:
        "DkwUozv4pWJmWNtBKWB+TL9FGcRBJxb00NkXxJeABb3qvq79V7xmCC1xik+LYFLhUW7op8QiuE3oVwcbtY/Tlb6gz6HGPufI" +
        "DWvWOQHZHLvRh9OFfcFrXM6vI4/4wn29",
    },
  },
];

export const RIM_ROOTS: readonly VendorRoot[] = [
  {
    name: "NVIDIA CoRIM signing Root CA",
    product: "NVIDIA RIM",
    pin: "dec1dc316477aa851eebdf51327ae9f864bc8d89254657ed1e7eb9168af1e1a3",
    simulatedPin: "d97e254e1e8911884874ae00c1cbb510a30b4cfeedffaa5d5efef25ed50acf77",
    notBefore: "2023-03-16T15:37:34Z",
    notAfter: "2053-03-08T15:37:34Z",
    subject: [
      ["country", "US"],
      ["organization", "NVIDIA"],
      ["commonName", "NVIDIA CoRIM signing Root CA"],
    ],
    key: {
      curve: "P-384",
      point:
        "uECyi9vNM+Iw2lfUzyBldHAwaC1HF7TCgp12QcEyUTm3Tagxwr48d55+K2VIlWYIDk7NlAIQdcV/Ff7euGLI+Qauj93HsSI4" +
        "WX298PpW54RTgz9tC+Q684caR/BXWEeZ",
    },
  },
];
