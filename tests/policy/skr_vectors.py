"""Known-answer vectors of Azure's key release: test keys only (specs/azure-skr.md, 17)."""

RFC5649_KEK = "5840df6e29b02af1ab493b705bf16ea1ae8338f4dcc176a8"
RFC5649 = (
    ("c37b7e6492584340bed12207808941155068f738", "138bdeaa9b8fa7fc61f97742e72248ee5ae6ae5360d1ae6a5f54f373fa543b6a"),
    ("466f7250617369", "afbeb0f07dfbf5419200f2ccb50bb24f"),
)
"""Key material and what it becomes under that key, from RFC 5649."""

WRAPPING_KEY = "00112233445566778899aabbccddeeff" * 2
SECRET = bytes(range(32))
SECRET_WRAPPED = "3f4df1f29ced549654966c2b0e6516171e0d084ecb94c5a32c8b6b038c6f21fb0bafa720d6b51de1"
P256_SEED = b"skr-kat-p256"
P256_PKCS8 = (
    "308187020100301306072a8648ce3d020106082a8648ce3d030107046d306b0201010420cfdf9a4643f1c3f5282496a03d59013a"
    "6f8e59b5778115022f6bb3987bcf79e3a144034200044877d5a61ef3c2583320a45718d1b8040c3b637ff2b6d52375f84b09cad4"
    "a68a1be022f08d094889201df8e0e4042c78e9f4b926360b34d6aefaa88beb749822"
)
P256_WRAPPED = (
    "251a0575d9cf53d6407398fa528d9a691bd14d35dbce5cd8d55635d899a3c3ba26c96d96e509da354539b7006804962fba866ed9"
    "62bb2a0527e5a26f98d9640e67e9c8c9944d4b8e6fdb3b785a82a4d786d417e5f0133259761cf8beca68c95188354be11531db57"
    "d44633c5352ab76101b02c263505c68daf60a5f6583809cb371b706998260c019eddb61d43b4991dedd6a3a187e57149"
)

KEK = {
    "kty": "RSA",
    "kid": "kat-kek",
    "use": "enc",
    "n": (
        "4IMPoAqSFiHyhe-gCKkkm1MYkvzZV21LmUYtX1_z0XiWX3XiPNB68HjaNFa1WTX1fFXzDPxJkdnNn_1OG1Z9VYNx2XqYPpsbXSpH6uKP"
        "VKUvdx3_-FlFd7xxHJW2QURyeaVbAI28PLhQlwRMZ9lkokWFMgtOaZM5uj4RdLJkLTxejeidSdGZJixkll9hMGE7Bo_1m47Y6AkBmBKZ"
        "4HO0tiIR5V1aPY-LPPmfnB4bdUs0RQEz6Je0M92uuF5UHa63_tY1aljQ4x3PRBT4p7Ost54PCmdDU1oGhEo5Z1W1VjVLssb5pe2-ipV7"
        "GlEqGCNDsw6Ktyim2wtT9bNeBv0hmQ"
    ),
    "e": "AQAB",
    "d": (
        "Bq1yJwbWjQjJ5rAAW9dnUI23eLagbj-SLAFK1hdRdhwT1fphSl4Ifa8j9fECc-Y46Fs2_HXAUSX9A8-sCHSTl0iRg2__nDeghSK4Bpm_"
        "Gd64bNMk6uakdm7Rtp0p3Q50-bjNdYMqaVTUb7RXEfiQbugJ-nO_i4Y7EP-D305EoduQNZnRcKuSQE5VTmmvCiEkMrgFxJpJdumD_UPM"
        "B97DL0sTcfijbs7PZiRS-Q9j4lmXM0SsYULYqyVoiU7wZq0nZP_ikZuz-HtBg82ldazHpbCDQ0uZF8DR5IlZnc6Vb6MlJwpcIY_iZzdA"
        "_1f6spnOpCNHcWAi7JdmVwoS47ZqYw"
    ),
    "p": (
        "-2y8ticURYzrggIMFXbXkyBxnDx2XxpiOwzYJMblBPAasbXJ4rDQeoAUU1p6-t0RQb6meoBKvM_xW7lqAHwg3uAxhsQle-hgRkOmDt6r"
        "5kl23e_TVol9_7BIg37mVSB5858Xa_TUsZr6xa6qpwDZbA2D1Dnho5vDpdRlNGKS5as"
    ),
    "q": (
        "5JjzVxsDYr332Tv7CiFHoqbmY_yzhNCxUzg2I2fuaPcYej_cyCwO-piyH0igupUJLhRZX6ATc4aiDHiMkzkwo60p7HLig-tKcff6Ey3S"
        "W4ElSzFgaK-aqCe2VB7760yrNisXaQYlhp8qWqx6k0zarZXN3iHH5Uj31owV1e1KCcs"
    ),
    "dp": (
        "u3_J8-WM3plLAHdaX59zAMuPLj6A4EeivfrELhkNrfMJVUIGvsGxl8lwXwD4-aBnQCpXqL-H_OruScMqZBYtxUhYZvJcKd2P_pZwfmJc"
        "u65JsRUq_Dwo9MeYLEg0qYNArwgTxXSeMZ0sKsQpi8W8XzJs_5Xyybpd24tbtgdVGWU"
    ),
    "dq": (
        "0sQ28KQGbh8rCs7jukZO7yelGqFev2FPbaRRPjnQNlVE60pAfQsqUGFDMdbb4swQ57x5XtKPvJ9wf8ESE5fSQcch9VFDilABlq0FlHNW"
        "FWowgXCoLD1kghADavIaYauR3GLEtd-l78aG3Y1TgsaEhTGu21UYIk4xvE3ywAiFkBs"
    ),
    "qi": (
        "umV9ZvLcXJkU2bFRUf_2CJZk10ojgn6siuAYR8KZ1JSC0JQbkgABfPg_CUHfP_D-DFnw7DVoDyR-nMgN8ZE8eo44n487JvQ4CjC1Vwdl"
        "VjISPiECoD5PDIWQazMLjJFNSm8twgdXGJBm0LHcy18MPi_8Xp_JUNO9bTF8GnY1FqA"
    ),
}
"""A JWK: the key to which the secret was encrypted."""
CIPHERTEXTS = {
    "CKM_RSA_AES_KEY_WRAP": (
        "0EpgtOqULKPdIyFfUEtDEcATqrI90YpeLrGge6CnLDMiGdblhnTcHRSUXUysGIp7274ScoFyFDdSEkRt-SxqzGBuh-Sicd8MdEV9CdAG"
        "13oS6oa_VKqH_4nUCO9uFvuztm_KDGyaRL43eAWaUI7a7s8rLfD3V55TVHztMqOQhZsOCao5GpRXZuLfFyaVp4L8nDQDVSUB8xyO7ucm"
        "JE0vra661MQl3O8giR3HJQCjujjbFR81c-2_qYgfzs-2FonclE4fIOE2Hr9ybcRs9S1NPdM2s9C2zshpT4znU_3heoGiGxivnQ8Wn95-"
        "g7iqYTI1Rm39Hz_qBmKlF0NgDFnSWz9N8fKc7VSWVJZsKw5lFhceDQhOy5TFoyyLawOMbyH7C6-nINa1HeE"
    ),
    "RSA_AES_KEY_WRAP_256": (
        "p_Uvr8CAbi0Y5KYM5xsvZK7eISCtFK4dH_0NGnO99cpsK7rKipfd1fyErvYUN5eFkCUgfKO6MzUzydsfjLoahcJ-kiaewcxN3A7NtwNr"
        "9EtzgVypJK-lpOxcDfFFlYcNduOOzL1wLZcQBtcQE0lw451k7xrAA8gSxg_x3REPLMhIdvmvyResVicz3R8QMTAVJ-ZiQ_dfW0-jh8P1"
        "Yer51Ooi2KwGo6ocxhDskeTYjMq54KUM9cDbDMqTueIlCcRFXhzGZSmIvJeq5yvBq20DN9XQLYOOrs8BxU8u5JnpsyELeFmqZH-I3qhA"
        "1aqIGSiU5qtzyaKgzYhp0feZVKMOhj9N8fKc7VSWVJZsKw5lFhceDQhOy5TFoyyLawOMbyH7C6-nINa1HeE"
    ),
    "RSA_AES_KEY_WRAP_384": (
        "fP-SjcQtLjR-M2GUP-dZcj2D21o_TdfEx5ZtGaRSmdldco_u9xdVXEW92XB0j_7Z8xac98GN5fRqp5kjDT1_pwryrrvMeiLKmjMG1wWA"
        "e0ND0rONJf_xZrQYqlWDf8lsAwa1Wf9c9vQkqw_Ae8VLl_SQnz0BZdave9gcw8h7VOx534Jh05ZUUOphIlPYKrHJI1m0_4TBmS3KqKZV"
        "NuAMVuH-9j1H9xTClR6x59vf7a8At_tm14KrHnShjNeM-IxbnGVe_ixFGtwM0DLV_Spo3UqRN3PzyNlATqqiQDcDDXMltK9ImKyx-6JB"
        "SFjQNZRymHgmOwE5NhhyFEnm50qKxz9N8fKc7VSWVJZsKw5lFhceDQhOy5TFoyyLawOMbyH7C6-nINa1HeE"
    ),
}
"""For each ``enc``, base64url of RSA-OAEP of the wrapping key and of the wrapped secret."""
