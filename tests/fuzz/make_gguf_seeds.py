#!/usr/bin/env python3
"""Writes inputs for fuzz_gguf that the malformed files do not cover.

    python3 make_gguf_seeds.py FOLDER    (fuzz-corpus/gguf of a build folder; then tools/fuzz_corpus)

Standard library only, the same bytes every time. All have a vocabulary of eight tokens, which is
refused in the end, so that they stay small; the layouts and keys before it are what they are for.
"""
import os, struct, sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "fixtures", "bad-gguf"))
sys.dont_write_bytecode = True
from make import ARR, BOOL, F32, F64, I32, I64, M, STR, U8, U32, U64, two_parts

A = "qwen3next."


def small():
    m = M()
    m.get("tokenizer.ggml.tokens")[2] = (STR, [chr(97 + i) for i in range(8)])
    m.get("tokenizer.ggml.token_type")[2] = (I32, [1] * 8)
    t = m.t("token_embd.weight")
    t["dims"], t["data"] = [8, 8], t["data"][: 8 * 8 * 2]
    return m


def pop(m, name):
    t = m.t(name)
    m.tensors.remove(t)
    return t


def legacy(m):
    gate, qkv = pop(m, "blk.0.attn_gate.weight"), m.t("blk.0.attn_qkv.weight")
    qkv["name"] = "blk.0.ssm_in.weight"
    qkv["dims"] = [8, qkv["dims"][1] + gate["dims"][1]]
    qkv["data"] += gate["data"]


def fused(m):
    up, gate = pop(m, "blk.1.ffn_up_exps.weight"), m.t("blk.1.ffn_gate_exps.weight")
    gate["name"], gate["dims"], gate["data"] = "blk.1.ffn_gate_up_exps.weight", [8, 8, 4], gate["data"] + up["data"]


def both_layouts(m):
    up = m.t("blk.1.ffn_up_exps.weight")
    m.tensors.append(dict(up, name="blk.1.ffn_gate_up_exps.weight"))


def mtp(m):
    m.set(A + "block_count", U32, 3)
    m.set(A + "nextn_predict_layers", U8, 1)
    m.tensors.append({"name": "blk.2.nextn.enorm.weight", "dims": [8], "type": 0, "data": bytes(32)})


def extra(name):
    return lambda m: m.tensors.append({"name": name, "dims": [8], "type": 0, "data": bytes(32)})


def key(name, kind, value):
    return lambda m: m.set(name if name.startswith("general.") else A + name, kind, value)


def drop(*names):
    return lambda m: [m.drop(A + n) for n in names]


def integer_tensor(m):
    t = m.t("output_norm.weight")
    t["type"], t["dims"] = 26, [8]


def both_kinds(m):
    m.tensors.append({"name": "blk.1.ssm_out.weight", "dims": [8], "type": 0, "data": bytes(32)})


SEEDS = {
    "legacy": legacy, "fused": fused, "both-layouts": both_layouts, "both-kinds": both_kinds, "mtp": mtp,
    "scale": extra("blk.0.ffn_up_exps.scale"), "bias": extra("blk.1.attn_q.bias"), "rope-freqs": extra("rope_freqs.weight"),
    "heads-array": key("attention.head_count_kv", ARR, (I32, [0, 1])),
    "heads-differ": lambda m: (mtp(m), key("full_attention_interval", U32, 1)(m), key("attention.head_count", ARR, (I64, [2, 2, 4]))(m)),
    "heads-short": key("attention.head_count", ARR, (I32, [2])),
    "recurrent-layers": key("attention.recurrent_layers", ARR, (BOOL, [1, 0])),
    "recurrent-wrong": key("attention.recurrent_layers", ARR, (BOOL, [0, 1])),
    "rope-scaling": key("rope.scaling.factor", F32, 4.0), "rope-none": key("rope.scaling.type", STR, "none"),
    "derived-widths": drop("expert_feed_forward_length", "expert_shared_feed_forward_length", "full_attention_interval"),
    "derived-heads": drop("attention.key_length", "attention.value_length"),
    "value-length": key("attention.value_length", U32, 8), "odd-rotary": key("rope.dimension_count", U32, 3),
    "wide": key("attention.head_count", U32, 1 << 20), "vocab-size": key("vocab_size", U64, 9),
    "inner-size": key("ssm.inner_size", U32, 33), "groups": key("ssm.group_count", U32, 2**20), "epsilon": key("attention.layer_norm_rms_epsilon", F64, 0.0),
    "mtp-too-many": key("nextn_predict_layers", U32, 2), "quantization": key("general.quantization_version", U32, 3),
    "integer-tensor": integer_tensor,
}

if __name__ == "__main__":
    out = sys.argv[1]
    os.makedirs(out, exist_ok=True)
    for name, edit in SEEDS.items():
        m = small()
        edit(m)
        open(os.path.join(out, name), "wb").write(m.build())
    u16 = lambda v: lambda b: b.set("split.count", 2, v)
    for name, edits in {"split": {}, "split-no": {"edit2": lambda b: b.set("split.no", U8, 0)}, "split-total": {"edit1": lambda a: a.set("split.tensors.count", U64, 1000)},
                        "split-count": {"edit2": u16(3)}, "split-second": {"edit1": lambda a: a.set("split.no", U8, 1)},
                        "split-without-total": {"edit1": lambda a: a.drop("split.tensors.count")}}.items():
        first, second = two_parts(small(), **edits).values()
        open(os.path.join(out, name), "wb").write(b"TWO" + struct.pack("<H", len(first)) + first + second)
