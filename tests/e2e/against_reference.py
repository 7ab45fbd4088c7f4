#!/usr/bin/env python3
"""A model with several attention layers against the numpy reference.

The shipped model has one attention layer; this one, made by `redlite synth`, has three of twelve.
usage: against_reference.py REDLITE REF_QWEN3NEXT.py SCRATCH_FOLDER BACKEND [LIMIT]
Prints the largest relative L2 of a position's logits; exit code 1 when it exceeds LIMIT (1e-5), 77
when numpy is not there.
"""
import importlib.util, os, subprocess, sys

try:
    import numpy as np
except ImportError:
    print("skipped: python3 has no numpy")
    sys.exit(77)

program, reference, scratch, backend = sys.argv[1:5]
limit = float(sys.argv[5]) if len(sys.argv) > 5 else 1e-5
spec = importlib.util.spec_from_file_location("ref_qwen3next", reference)
ref = importlib.util.module_from_spec(spec)
spec.loader.exec_module(ref)

model = os.path.join(scratch, "reference-%s.gguf" % backend)
logits = os.path.join(scratch, "reference-%s.bin" % backend)
subprocess.check_call([program, "synth", "-q", "-o", model, "--preset", "tiny", "--mix", "F32", "-s", "11",
                       "--layers", "12", "--hidden", "64", "--experts", "12", "--expert-width", "32",
                       "--shared-width", "32", "--vocab-size", "300"])
rng = np.random.default_rng(5)
reader = ref.Model(model)
tokens = [int(t) for t in rng.integers(0, reader.n_vocab, 80)]
subprocess.check_call([program, "logits", "-q", "-m", model, "--backend", backend, "-ctk", "f32", "-ctv", "f32",
                       "--tokens", ",".join(map(str, tokens)), "--out", logits])
want = reader.forward(tokens)
got = np.fromfile(logits, "<f4").reshape(want.shape).astype(np.float64)
distance = np.linalg.norm(got - want, axis=1) / np.linalg.norm(want, axis=1)
attention = [i for i in range(reader.n_layer) if not reader.recurrent[i]]
print("%s: attention layers %s, largest relative L2 %.3g (limit %g)" % (backend, attention, distance.max(), limit))
os.remove(model)
os.remove(logits)
sys.exit(0 if len(attention) >= 2 and distance.max() <= limit else 1)
