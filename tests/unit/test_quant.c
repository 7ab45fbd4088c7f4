/* test_quant.c - the table of tensor types: look-up, sizes, refusals, codebooks, odd inputs. */
#include "support/test.h"

#include "base/bytes.h"
#include "quant/codebooks.h"
#include "quant/quant.h"

/* Every row is found by id and by name, in any case, and ids outside the list are not.
 * Stands against: an id that silently lands on a neighbour's decoder. */
static void quant_finds_types(void **state)
{
    (void)state;
    assert_int_equal(rl_quant_count(), 29);
    uint32_t found = 0;
    for (uint32_t type = 0; type < 1000; type++) {
        const rl_quant_info *info = rl_quant_find(type);
        if (!info) continue;
        found++;
        assert_int_equal(info->type, type);
        assert_ptr_equal(rl_quant_find_name(info->name), info);
    }
    assert_int_equal(found, rl_quant_count());
    for (uint32_t i = 0; i < rl_quant_count(); i++)
        assert_ptr_equal(rl_quant_find(rl_quant_at(i)->type), rl_quant_at(i));
    assert_int_equal(rl_quant_find_name("iq2_xs")->type, 17);
    assert_int_equal(rl_quant_find_name("bf16")->type, 30);
    assert_null(rl_quant_find_name("Q4_K_M"));
    assert_null(rl_quant_find_name(""));
    assert_null(rl_quant_find(UINT32_MAX));
}

static void refusal_is(uint32_t type, const char *text)
{
    char out[128];
    assert_null(rl_quant_find(type));
    rl_quant_refusal(type, out, sizeof out);
    assert_string_equal(out, text);
}

/* The sentence says which kind of trouble an id is.
 * Stands against: "unknown type 144" for a file that another program reads happily. */
static void quant_says_why_refused(void **state)
{
    (void)state;
    refusal_is(4, "retired type 4 (Q4_2)");
    refusal_is(5, "retired type 5 (Q4_3)");
    refusal_is(31, "retired type 31 (Q4_0_4_4)");
    refusal_is(38, "retired type 38 (IQ4_NL_8_8)");
    refusal_is(9, "unsupported type 9 (Q8_1)");
    refusal_is(26, "unsupported type 26 (I32)");
    refusal_is(43, "unknown type 43");
    refusal_is(77, "unknown type 77");
    refusal_is(96, "unknown type 96");
    refusal_is(97, "type 97 (the file seems to come from a fork with its own types)");
    refusal_is(144, "type 144 (the file seems to come from a fork with its own types)");
    refusal_is(399, "type 399 (the file seems to come from a fork with its own types)");
    refusal_is(400, "unknown type 400");
    refusal_is(UINT32_MAX, "unknown type 4294967295");
    char small[8];
    memset(small, 'x', sizeof small);
    rl_quant_refusal(144, small, 5);
    assert_string_equal(small, "type");
    assert_int_equal(small[5], 'x');
}

/* Stands against: a size that wraps, or a row that is cut inside a block. */
static void quant_counts_bytes(void **state)
{
    (void)state;
    uint64_t bytes = 0;
    const rl_quant_info *iq1_m = rl_quant_find(RL_QUANT_IQ1_M);
    assert_true(rl_quant_bytes(iq1_m, 2048 * 512, &bytes));
    assert_int_equal(bytes, 229376);
    assert_false(rl_quant_bytes(iq1_m, 255, &bytes));
    assert_true(rl_quant_bytes(iq1_m, 0, &bytes));
    assert_int_equal(bytes, 0);
    const rl_quant_info *f32 = rl_quant_find(RL_QUANT_F32);
    assert_false(rl_quant_bytes(f32, UINT64_MAX / 2, &bytes));
    assert_true(rl_quant_bytes(f32, UINT64_MAX / 4, &bytes));
}

static uint32_t byte_sum(const void *table, size_t bytes)
{
    const uint8_t *p = table;
    uint32_t sum = 0;
    for (size_t i = 0; i < bytes; i++)
        sum += p[i];
    return sum;
}

/* The sums that the format's description states, and the two rules that bind tables to arithmetic.
 * Stands against: one wrong digit in 12,000, which makes text a little worse and nothing fail. */
static void quant_codebooks_are_whole(void **state)
{
    (void)state;
    assert_int_equal(byte_sum(rl_iq1s_grid, sizeof rl_iq1s_grid), 1247985);
    assert_int_equal(byte_sum(rl_iq2s_grid, sizeof rl_iq2s_grid), 167589);
    assert_int_equal(byte_sum(rl_iq2xs_grid, sizeof rl_iq2xs_grid), 81582);
    assert_int_equal(byte_sum(rl_iq2xxs_grid, sizeof rl_iq2xxs_grid), 38611);
    assert_int_equal(byte_sum(rl_iq3s_grid, sizeof rl_iq3s_grid), 12748);
    assert_int_equal(byte_sum(rl_iq3xxs_grid, sizeof rl_iq3xxs_grid), 25592);
    assert_int_equal(byte_sum(rl_iq4nl_values, sizeof rl_iq4nl_values), 1954);
    assert_int_equal(byte_sum(rl_ksigns, sizeof rl_ksigns), 16320);
    assert_int_equal(byte_sum(rl_mxfp4_values, sizeof rl_mxfp4_values), 1792);
    for (int i = 0; i < 128; i++)
        assert_int_equal(rl_ksigns[i], i | (__builtin_popcount((unsigned)i) & 1) << 7);
    const int8_t iq4nl[16] = { -127, -104, -83, -65, -49, -35, -22, -10,
                               1,    13,   25,  38,  53,  69,  89,  113 };
    assert_memory_equal(rl_iq4nl_values, iq4nl, sizeof iq4nl);
    for (int i = 0; i < 2048; i++)
        for (int j = 0; j < 8; j++) {
            int8_t v = (int8_t)(rl_iq1s_grid[i] >> (8 * j));
            assert_true(v >= -1 && v <= 1);
        }
}

/* Blocks at every alignment decode to the same numbers; partial blocks and unknown types are
 * errors that leave the output alone. */
static void quant_dequantize_checks_its_arguments(void **state)
{
    (void)state;
    uint8_t storage[2 * 292 + 16];
    float first[512], other[512];
    for (uint32_t i = 0; i < rl_quant_count(); i++) {
        const rl_quant_info *info = rl_quant_at(i);
        uint8_t blocks[2 * 292];
        uint64_t seed = 7 + i;
        for (size_t k = 0; k < sizeof blocks; k++) /* small bytes: no NaN or infinity arises */
            blocks[k] = (uint8_t)(rl_test_random(&seed) & 0x37);
        size_t n = 2 * (size_t)info->block;
        memset(first, 0x55, sizeof first);
        assert_int_equal(rl_dequantize(info->type, blocks, n, first), RL_OK);
        for (size_t shift = 1; shift < 16; shift++) {
            memcpy(storage + shift, blocks, sizeof blocks);
            assert_int_equal(rl_dequantize(info->type, storage + shift, n, other), RL_OK);
            assert_memory_equal(first, other, n * sizeof *first);
        }
        if (n < 512) assert_int_equal(rl_f32_bits(first[n]), 0x55555555);
        float untouched = 7;
        if (info->block > 1) {
            assert_int_equal(rl_dequantize(info->type, blocks, 1, &untouched), RL_INVALID);
            assert_int_equal(rl_dequantize(info->type, blocks, info->block + 1u, &untouched),
                             RL_INVALID);
        }
        assert_int_equal(rl_dequantize(info->type, NULL, info->block, &untouched), RL_INVALID);
        assert_int_equal(rl_dequantize(info->type, NULL, 0, NULL), RL_OK);
        assert_true(untouched == 7);
    }
    assert_int_equal(rl_dequantize(4, storage, 32, first), RL_UNSUPPORTED);
    assert_int_equal(rl_dequantize(144, storage, 256, first), RL_UNSUPPORTED);
}

RL_TEST_MAIN(RL_TEST(quant, finds_types), RL_TEST(quant, says_why_refused),
             RL_TEST(quant, counts_bytes), RL_TEST(quant, codebooks_are_whole),
             RL_TEST(quant, dequantize_checks_its_arguments))
