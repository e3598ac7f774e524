"""The table of the evidence formats that this version verifies: one line for each folder.

``attest.verification`` knows no format by name; it looks up the media type of an item here.
"""

from __future__ import annotations

from attest.evidence.azure.format import AZURE_FORMATS
from attest.evidence.device_format import FormatTable
from attest.evidence.gpu.format import GPU_FORMATS
from attest.evidence.intel.format import INTEL_FORMATS
from attest.evidence.sample.format import SAMPLE_FORMATS
from attest.evidence.snp.format import SNP_FORMATS

FORMATS: FormatTable = SNP_FORMATS.merged(
    INTEL_FORMATS,
    AZURE_FORMATS,
    GPU_FORMATS,
    SAMPLE_FORMATS,
)
"""The evidence formats that this version verifies."""
