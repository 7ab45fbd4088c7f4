#!/usr/bin/env python3
"""Writes src/quant/codebooks.c and src/backend/cpu/cpu_grids.c from the tables in tools/codebooks/.

The text files list hexadecimal entries in index order; byte 0 of an entry (the least significant)
is its first weight. Run it again when a format gains a table; the result is checked in.
"""
import pathlib

TABLES = [  # text file, C type, C name, digits per entry
    ("iq2xxs_grid", "uint64_t", "rl_iq2xxs_grid", 16),
    ("iq2xs_grid", "uint64_t", "rl_iq2xs_grid", 16),
    ("iq2s_grid", "uint64_t", "rl_iq2s_grid", 16),
    ("iq3xxs_grid", "uint32_t", "rl_iq3xxs_grid", 8),
    ("iq3s_grid", "uint32_t", "rl_iq3s_grid", 8),
    ("iq1s_grid", "uint64_t", "rl_iq1s_grid", 16),
    ("ksigns", "uint8_t", "rl_ksigns", 2),
    ("iq4nl_values", "int8_t", "rl_iq4nl_values", 2),
    ("mxfp4_values", "int8_t", "rl_mxfp4_values", 2),
]


GRIDS = [  # text file, C type, C name, digits, what the cpu kernels want of a byte
    ("iq2xxs_grid", "uint64_t", "rl_cpu_grid_iq2xxs", 16, lambda v: v + 43),
    ("iq2xs_grid", "uint64_t", "rl_cpu_grid_iq2xs", 16, lambda v: v + 43),
    ("iq2s_grid", "uint64_t", "rl_cpu_grid_iq2s", 16, lambda v: v + 43),
    ("iq3xxs_grid", "uint32_t", "rl_cpu_grid_iq3xxs", 8, lambda v: v + 62),
    ("iq3s_grid", "uint32_t", "rl_cpu_grid_iq3s", 8, lambda v: v + 15),
    ("iq1s_grid", "uint64_t", "rl_cpu_grid_iq1s", 16, lambda v: 8 * ((v + 1) & 255)),
]


def literal(word: str, ctype: str) -> str:
    value = int(word, 16)
    if ctype == "int8_t":
        return str(value - 256 if value > 127 else value)
    return f"0x{word}"


def words_of(root: pathlib.Path, name: str, digits: int) -> list:
    words = (root / "tools" / "codebooks" / f"{name}.txt").read_text().split()
    assert all(len(word) == digits for word in words), name
    return words


def put_table(out: list, ctype: str, cname: str, digits: int, words: list) -> None:
    per_line = {16: 5, 8: 8, 2: 16}[digits]
    align = " _Alignas(64)" if digits > 2 else ""
    out.append(f"\nconst{align} {ctype} {cname}[{len(words)}] = {{")
    for i in range(0, len(words), per_line):
        out.append("    " + ", ".join(literal(w, ctype) for w in words[i : i + per_line]) + ",")
    out.append("};")


def main() -> None:
    root = pathlib.Path(__file__).resolve().parent.parent
    out = [
        "/* codebooks.c - written by tools/make_codebooks.py from tools/codebooks/; do not edit.",
        " * What an entry means: codebooks.h. test_quant.c verifies the checksums. */",
        "/* clang-format off */",
        '#include "quant/codebooks.h"',
    ]
    for name, ctype, cname, digits in TABLES:
        put_table(out, ctype, cname, digits, words_of(root, name, digits))
    (root / "src" / "quant" / "codebooks.c").write_text("\n".join(out) + "\n")

    out = [
        "/* cpu_grids.c - written by tools/make_codebooks.py from tools/codebooks/; do not edit.",
        " * What an entry means: cpu_grids.h. kernel.cpu.* would not pass with a wrong one. */",
        "/* clang-format off */",
        '#include "backend/cpu/cpu_grids.h"',
    ]
    for name, ctype, cname, digits, change in GRIDS:
        words = []
        for word in words_of(root, name, digits):
            values = [change(v) for v in bytes.fromhex(word)]
            words.append(bytes(values).hex())
        put_table(out, ctype, cname, digits, words)
    (root / "src" / "backend" / "cpu" / "cpu_grids.c").write_text("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
