"""Speech as images: one-second clips become log-mel spectrograms, once, when they are read.

The usual front end of keyword spotting: windows of 30 ms every 10 ms, triangular filters that are evenly spaced on
the mel scale (2595 log10(1 + f / 700)), log of their power. Stored as bytes: 0 is a log power of -14, 255 is 7.
"""

import io
import wave
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Final

import numpy as np

from clients.tasks.damage import damaged
from clients.tasks.image_format import ImageFormat

RATE: Final = 16_000
_WINDOW, _HOP, _FFT = 480, 160, 512  # samples
_LOW, _HIGH = 20.0, 7600.0  # Hz
_QUIETEST, _LOUDEST = -14.0, 7.0  # of log power
_BATCH = 256  # clips; bounds the memory for their spectra


@dataclass(frozen=True)
class LogMel(ImageFormat):
    """Clips in WAV files (16 bit, mono, 16 kHz) as images of shape (1, frames, mel bands).

    Clips are cut, or padded with silence, to what the frames need: 98 frames are one second. Arrays, such as those
    of a device's npz, are taken as spectrograms that were made before.
    """

    class_folders: ClassVar[bool] = False  # clips are no image files

    def decode(self, encoded: Sequence[Any], origin: Callable[[int], str]) -> np.ndarray:
        """WAV files as one array (n, 1, frames, bands) uint8; `origin` names one by its number."""
        _, frames, bands = self.shape
        pixels = np.empty((len(encoded), 1, frames, bands), np.uint8)
        for first in range(0, len(encoded), _BATCH):
            clips = np.zeros((len(encoded[first : first + _BATCH]), _WINDOW + (frames - 1) * _HOP), np.float32)
            for row, cell in enumerate(encoded[first : first + _BATCH]):
                samples = _samples(cell, origin(first + row))
                clips[row, : len(samples)] = samples[: clips.shape[1]]
            pixels[first : first + len(clips), 0] = to_bytes(log_mel(clips, bands))
        return pixels


def log_mel(clips: np.ndarray, bands: int) -> np.ndarray:
    """Log power of clips (n, samples) in [-1, 1], as (n, frames, bands)."""
    windows = np.lib.stride_tricks.sliding_window_view(clips, _WINDOW, axis=1)[:, ::_HOP]  # (n, frames, window)
    power = np.square(np.abs(np.fft.rfft(windows * np.hanning(_WINDOW).astype(np.float32), _FFT)))
    return np.log(power @ mel_filters(bands) + 1e-6)  # type: ignore[no-any-return]


def to_bytes(spectrogram: np.ndarray) -> np.ndarray:
    """Log power as bytes, to the nearest; what lies outside the range is cut."""
    scaled = (spectrogram - _QUIETEST) / (_LOUDEST - _QUIETEST) * 255
    return np.rint(np.clip(scaled, 0, 255)).astype(np.uint8)


@cache
def mel_filters(bands: int) -> np.ndarray:
    """Triangles over the spectrum, (frequencies, bands); each peaks at 1 where its neighbours end."""
    low, high = (2595 * np.log10(1 + f / 700) for f in (_LOW, _HIGH))
    corners = 700 * (10 ** (np.linspace(low, high, bands + 2) / 2595) - 1)  # Hz
    frequencies = np.fft.rfftfreq(_FFT, 1 / RATE)[:, None]
    rising = (frequencies - corners[:-2]) / (corners[1:-1] - corners[:-2])
    falling = (corners[2:] - frequencies) / (corners[2:] - corners[1:-1])
    return np.maximum(0, np.minimum(rising, falling)).astype(np.float32)


def _samples(cell: Any, origin: str) -> np.ndarray:
    """Samples in [-1, 1] of a WAV file's bytes, or of the hub's {bytes, path}."""
    data = cell.get("bytes") if isinstance(cell, dict) else cell
    if not isinstance(data, bytes):
        raise ValueError(f"{origin}: holds {type(data).__name__}, must be the bytes of a WAV file")
    try:
        with wave.open(io.BytesIO(data)) as file:
            kind = (file.getnchannels(), 8 * file.getsampwidth(), file.getframerate())
            frames = file.readframes(file.getnframes())
        samples = np.frombuffer(frames, "<i2" if kind[1] == 16 else "u1")
    except Exception as error:  # of the module `wave`, and NumPy's for half a sample
        raise damaged(origin, "WAV", error) from error
    if kind != (1, 16, RATE):
        raise ValueError(f"{origin}: has (channels, bits, Hz) {kind}, must be {(1, 16, RATE)}")
    return samples.astype(np.float32) / 2**15
