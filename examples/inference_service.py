"""An inference service whose weights are decrypted into its own memory, and nowhere else.

``uvicorn --app-dir examples inference_service:app`` expects ``my-model.sealed``, which holds ``model.safetensors``, and
``owner.pub`` in the working directory.
"""

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
from fastapi import FastAPI

import attest
from attest.sealed import load_model, open_directory
from attest.sealed.signing_keys import read_trusted_key

OWNER = read_trusted_key(Path("owner.pub").read_bytes())


@asynccontextmanager
async def weights(app: FastAPI) -> AsyncIterator[None]:
    """Prove this machine, load the weights, and stop serving when the lease is lost: uvicorn ends on SIGTERM."""
    with attest.Session(on_lost=lambda _, __: os.kill(os.getpid(), signal.SIGTERM)) as session:
        with open_directory("my-model.sealed", key=session, trusted=(OWNER,)) as model:
            app.state.weights = load_model(model)
        yield


app = FastAPI(lifespan=weights)


@app.post("/v1/scores")
def scores(features: list[float]) -> list[float]:
    """Multiply the features by the matrix ``w``, and add ``b``."""
    found = app.state.weights["w"] @ np.asarray(features, dtype=np.float32) + app.state.weights["b"]
    return [float(one) for one in found]
