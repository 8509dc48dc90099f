"""Runs in a pod: loads a model and prints its answer to one input as a line of JSON.

Kept apart because its text is sent to the pod, and runs in a process there. No syntax newer than
Python 3.7, and libraries only of the model's format: it runs with the Python of the job. Arguments:
the folder of the version, its format, the input as JSON.
"""

from __future__ import annotations

import importlib
import json
import os
import struct
import sys
from typing import Any

MARK = "muster.dev/prediction "
"""The start of the line with the result."""
MAX_OUTPUT = 1 << 20


def main(folder: str, form: str, text: str) -> int:
    try:
        given = json.loads(text)
        result = {"prediction": PREDICT[form](folder, given)}
        line = json.dumps(result, default=plain, allow_nan=False)
        if len(line) > MAX_OUTPUT:
            raise ValueError(f"the prediction has {len(line)} bytes; {MAX_OUTPUT} can be shown")
    except ImportError as error:
        name = str(error.name or error)
        line = json.dumps({"error": f"the job's environment has no {name}", "missing": name})
    except Exception as error:  # noqa: BLE001 - of any library; the user reads it
        line = json.dumps({"error": f"{type(error).__name__}: {str(error)[:2000]}"})
    sys.stdout.write(f"\n{MARK}{line}\n")
    return 0 if '{"prediction"' in line[:14] else 1


def plain(value: Any) -> Any:
    """A value of a library as JSON has it."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if hasattr(value, "numpy"):
        return value.numpy().tolist()
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    raise TypeError(f"a {type(value).__name__} cannot be shown")


def npz(folder: str, given: Any) -> Any:
    """A linear classifier if the arrays are one (`weights`, perhaps `bias`), else the arrays."""
    numpy = importlib.import_module("numpy")
    arrays = dict(numpy.load(first_file(folder, ".npz"), allow_pickle=False))
    inputs = inputs_of(given)
    weights = arrays.get("weights", arrays.get("w"))
    if weights is None and len(arrays) == 1:
        weights = next(iter(arrays.values()))
    if inputs is None or weights is None or weights.ndim != 2:
        return {"tensors": {name: about(numpy, array) for name, array in arrays.items()}}
    rows = numpy.atleast_2d(numpy.asarray(inputs, dtype="float64"))
    if rows.shape[1] != weights.shape[0]:
        given_size, size = rows.shape[1], weights.shape[0]
        raise ValueError(f"a row of the input has {given_size} numbers, and the model takes {size}")
    scores = rows @ weights + arrays.get("bias", arrays.get("b", 0.0))
    chances = numpy.exp(scores - scores.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    return {"classes": scores.argmax(axis=1), "probabilities": chances}


def about(numpy: Any, array: Any) -> Any:
    facts: Any = {"dtype": str(array.dtype), "shape": list(array.shape)}
    if array.size and numpy.issubdtype(array.dtype, numpy.number):
        facts.update(min=float(array.min()), max=float(array.max()), mean=float(array.mean()))
    return facts


def saved_model(folder: str, given: Any) -> Any:
    tensorflow = importlib.import_module("tensorflow")
    model = tensorflow.saved_model.load(folder)
    names = sorted(model.signatures)
    chosen = given.get("signature") if isinstance(given, dict) else None
    if not names:
        raise ValueError("the SavedModel has no signature")
    name = chosen or ("serving_default" if "serving_default" in names else names[0])
    function = model.signatures[name]
    expected = function.structured_input_signature[1]
    values = by_name(inputs_of(given), sorted(expected))
    tensors = {
        key: tensorflow.constant(values[key], dtype=spec.dtype)
        for key, spec in expected.items()
        if key in values
    }
    return {key: value.numpy() for key, value in function(**tensors).items()}


def onnx(folder: str, given: Any) -> Any:
    numpy, runtime = importlib.import_module("numpy"), importlib.import_module("onnxruntime")
    session = runtime.InferenceSession(
        first_file(folder, ".onnx"), providers=["CPUExecutionProvider"]
    )
    expected = {row.name: row.type for row in session.get_inputs()}
    values = by_name(inputs_of(given), list(expected))
    kinds = {"tensor(float)": "float32", "tensor(double)": "float64", "tensor(int64)": "int64"}
    arrays = {key: numpy.asarray(row, kinds.get(expected[key])) for key, row in values.items()}
    results = session.run(None, arrays)
    names = [row.name for row in session.get_outputs()]
    return {name: results[index] for index, name in enumerate(names)}


def safetensors(folder: str, given: Any) -> Any:
    """The tensors; the format does not say how to compute with them."""
    with open(first_file(folder, ".safetensors"), "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        rows = json.loads(file.read(min(length, 100 << 20)))
    rows.pop("__metadata__", None)
    return {"tensors": {k: {"dtype": r["dtype"], "shape": r["shape"]} for k, r in rows.items()}}


def inputs_of(given: Any) -> Any:
    """The values of an input in the forms of TensorFlow Serving: inputs or instances."""
    if isinstance(given, dict):
        if "inputs" in given or "instances" in given:
            return given.get("inputs", given.get("instances"))
        rest = {key: value for key, value in given.items() if key != "signature"}
        return rest or None
    return given


def by_name(values: Any, names: list) -> dict:  # type: ignore[type-arg] # Python 3.7
    """Values by the name of the input; values without names are for the only input."""
    if isinstance(values, dict):
        unknown = sorted(set(values) - set(names))
        if unknown:
            raise ValueError(f"the model has no input {unknown[0]}; it has {', '.join(names)}")
        return values
    if len(names) != 1:
        raise ValueError(f"name the inputs: {', '.join(names)}")
    return {names[0]: values}


def first_file(folder: str, ending: str) -> str:
    names = sorted(name for name in os.listdir(folder) if name.endswith(ending))
    if not names:
        raise FileNotFoundError(f"there is no {ending} file in {folder}")
    return os.path.join(folder, "model" + ending if "model" + ending in names else names[0])


PREDICT = {"npz": npz, "SavedModel": saved_model, "ONNX": onnx, "safetensors": safetensors}

if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
