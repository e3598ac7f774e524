"""A known answer: a key pair and a ciphertext to it, made and opened by other programs. The keys are for tests only."""

KEY = {
    "n": (
        "4IMPoAqSFiHyhe-gCKkkm1MYkvzZV21LmUYtX1_z0XiWX3XiPNB68HjaNFa1WTX1fFXzDPxJkdnNn_1OG1Z9VYNx2XqYPpsbXSpH"
        "6uKPVKUvdx3_-FlFd7xxHJW2QURyeaVbAI28PLhQlwRMZ9lkokWFMgtOaZM5uj4RdLJkLTxejeidSdGZJixkll9hMGE7Bo_1m47Y"
        "6AkBmBKZ4HO0tiIR5V1aPY-LPPmfnB4bdUs0RQEz6Je0M92uuF5UHa63_tY1aljQ4x3PRBT4p7Ost54PCmdDU1oGhEo5Z1W1VjVL"
        "ssb5pe2-ipV7GlEqGCNDsw6Ktyim2wtT9bNeBv0hmQ"
    ),
    "d": (
        "Bq1yJwbWjQjJ5rAAW9dnUI23eLagbj-SLAFK1hdRdhwT1fphSl4Ifa8j9fECc-Y46Fs2_HXAUSX9A8-sCHSTl0iRg2__nDeghSK4"
        "Bpm_Gd64bNMk6uakdm7Rtp0p3Q50-bjNdYMqaVTUb7RXEfiQbugJ-nO_i4Y7EP-D305EoduQNZnRcKuSQE5VTmmvCiEkMrgFxJpJ"
        "dumD_UPMB97DL0sTcfijbs7PZiRS-Q9j4lmXM0SsYULYqyVoiU7wZq0nZP_ikZuz-HtBg82ldazHpbCDQ0uZF8DR5IlZnc6Vb6Ml"
        "JwpcIY_iZzdA_1f6spnOpCNHcWAi7JdmVwoS47ZqYw"
    ),
    "p": (
        "-2y8ticURYzrggIMFXbXkyBxnDx2XxpiOwzYJMblBPAasbXJ4rDQeoAUU1p6-t0RQb6meoBKvM_xW7lqAHwg3uAxhsQle-hgRkOm"
        "Dt6r5kl23e_TVol9_7BIg37mVSB5858Xa_TUsZr6xa6qpwDZbA2D1Dnho5vDpdRlNGKS5as"
    ),
    "q": (
        "5JjzVxsDYr332Tv7CiFHoqbmY_yzhNCxUzg2I2fuaPcYej_cyCwO-piyH0igupUJLhRZX6ATc4aiDHiMkzkwo60p7HLig-tKcff6"
        "Ey3SW4ElSzFgaK-aqCe2VB7760yrNisXaQYlhp8qWqx6k0zarZXN3iHH5Uj31owV1e1KCcs"
    ),
    "dp": (
        "u3_J8-WM3plLAHdaX59zAMuPLj6A4EeivfrELhkNrfMJVUIGvsGxl8lwXwD4-aBnQCpXqL-H_OruScMqZBYtxUhYZvJcKd2P_pZw"
        "fmJcu65JsRUq_Dwo9MeYLEg0qYNArwgTxXSeMZ0sKsQpi8W8XzJs_5Xyybpd24tbtgdVGWU"
    ),
    "dq": (
        "0sQ28KQGbh8rCs7jukZO7yelGqFev2FPbaRRPjnQNlVE60pAfQsqUGFDMdbb4swQ57x5XtKPvJ9wf8ESE5fSQcch9VFDilABlq0F"
        "lHNWFWowgXCoLD1kghADavIaYauR3GLEtd-l78aG3Y1TgsaEhTGu21UYIk4xvE3ywAiFkBs"
    ),
    "qi": (
        "umV9ZvLcXJkU2bFRUf_2CJZk10ojgn6siuAYR8KZ1JSC0JQbkgABfPg_CUHfP_D-DFnw7DVoDyR-nMgN8ZE8eo44n487JvQ4CjC1"
        "VwdlVjISPiECoD5PDIWQazMLjJFNSm8twgdXGJBm0LHcy18MPi_8Xp_JUNO9bTF8GnY1FqA"
    ),
}
EXPONENT = 65537
CIPHERTEXT = (
    "p_Uvr8CAbi0Y5KYM5xsvZK7eISCtFK4dH_0NGnO99cpsK7rKipfd1fyErvYUN5eFkCUgfKO6MzUzydsfjLoahcJ-kiaewcxN3A7N"
    "twNr9EtzgVypJK-lpOxcDfFFlYcNduOOzL1wLZcQBtcQE0lw451k7xrAA8gSxg_x3REPLMhIdvmvyResVicz3R8QMTAVJ-ZiQ_df"
    "W0-jh8P1Yer51Ooi2KwGo6ocxhDskeTYjMq54KUM9cDbDMqTueIlCcRFXhzGZSmIvJeq5yvBq20DN9XQLYOOrs8BxU8u5JnpsyEL"
    "eFmqZH-I3qhA1aqIGSiU5qtzyaKgzYhp0feZVKMOhj9N8fKc7VSWVJZsKw5lFhceDQhOy5TFoyyLawOMbyH7C6-nINa1HeE"
)
MATERIAL = bytes(range(32))
