/* cpu_matmul.c - preparing activations, and the driver of all products: which rows are unpacked
 * when, and which kernel sees them. Knows the tables, not the instruction sets.
 *
 * One token: the fused kernel of the type streams through the rows. More tokens: a few rows are
 * unpacked into a buffer that stays in the nearest caches, and each tile of tokens is multiplied
 * with all of them. Very long rows are cut into chunks whose results are added. */
#include "backend/cpu/cpu_matrix.h"

#include "base/assert.h"

#define CHUNK        16384u                  /* columns unpacked at once, at most; 64 KiB as f32 */
#define BUFFER_BYTES (CHUNK * sizeof(float)) /* unpacked rows                                */
#define ROWS         16u                     /* unpacked rows per pass, at most              */

/* ---- activations ----------------------------------------------------------------------------- */

uint32_t rl_cpu_act_format(const rl_cpu_kernels *k, uint32_t type)
{
    RL_ASSERT(rl_quant_find(type));
    switch (k->matrix->type[type].kind) {
    case RL_KIND_FLOAT: return RL_CPU_ACT_F32;
    case RL_KIND_ROW: return RL_CPU_ACT_ROW8;
    default: return RL_CPU_ACT_RUN8;
    }
}

static size_t f32_bytes(uint32_t cols)
{
    return (size_t)rl_align_up((uint64_t)cols * sizeof(float), RL_CPU_ALIGN);
}

static size_t token_bytes(uint32_t formats, uint32_t cols)
{
    return (formats & RL_CPU_ACT_F32 ? f32_bytes(cols) : 0) +
           (formats & RL_CPU_ACT_RUN8 ? rl_cpu_runs(cols) * sizeof(rl_act_run8) : 0) +
           (formats & RL_CPU_ACT_ROW8 ? rl_cpu_runs(cols) * sizeof(rl_act_row8) : 0);
}

size_t rl_cpu_act_bytes(uint32_t formats, uint32_t cols, uint32_t n_tokens)
{
    return token_bytes(formats, cols) * n_tokens;
}

void rl_cpu_act_init(rl_cpu_act *act, uint32_t formats, uint32_t cols, uint32_t n_tokens,
                     void *storage)
{
    RL_ASSERT(act && cols && (storage || !formats || !n_tokens));
    RL_ASSERT((uintptr_t)storage % RL_CPU_ALIGN == 0);
    *act = (rl_cpu_act){ .cols = cols, .n_tokens = n_tokens, .formats = formats };
    uint8_t *next = storage;
    if (formats & RL_CPU_ACT_F32) {
        act->f32 = next;
        act->f32_bytes = f32_bytes(cols);
        next += act->f32_bytes * n_tokens;
    }
    if (formats & RL_CPU_ACT_RUN8) {
        act->run8 = next;
        act->run8_bytes = rl_cpu_runs(cols) * sizeof(rl_act_run8);
        next += act->run8_bytes * n_tokens;
    }
    if (formats & RL_CPU_ACT_ROW8) {
        act->row8 = next;
        act->row8_bytes = rl_cpu_runs(cols) * sizeof(rl_act_row8);
    }
}

void rl_cpu_prepare(const rl_cpu_kernels *k, const rl_cpu_act *act, uint32_t first, uint32_t n,
                    const float *x, size_t x_stride)
{
    RL_ASSERT(first <= act->n_tokens && n <= act->n_tokens - first);
    for (uint32_t i = 0; i < n; i++, x += x_stride) {
        size_t token = first + i;
        if (act->f32) memcpy(act->f32 + token * act->f32_bytes, x, act->cols * sizeof *x);
        if (act->run8)
            k->matrix->quantise_run8(x, act->cols, (void *)(act->run8 + token * act->run8_bytes));
        if (act->row8)
            k->matrix->quantise_row8(x, act->cols, (void *)(act->row8 + token * act->row8_bytes));
    }
}

/* ---- products -------------------------------------------------------------------------------- */

/* One product, with everything looked up. */
typedef struct product {
    const rl_cpu_kernels *k;
    const rl_cpu_type_ops *ops;
    const rl_cpu_matrix *w;
    const uint32_t *tokens;
    const uint8_t *act;    /* token 0            */
    size_t act_bytes;      /* per token          */
    size_t run_bytes;      /* 256 columns of act */
    size_t unpacked_bytes; /* 256 columns of an unpacked row */
} product;

static const uint8_t *act_of(const product *p, uint32_t i)
{
    return p->act + (p->tokens ? p->tokens[i] : i) * p->act_bytes;
}

static product product_of(const rl_cpu_kernels *k, const rl_cpu_matrix *w, const rl_cpu_act *act,
                          const uint32_t *tokens)
{
    product p = { .k = k, .ops = &k->matrix->type[w->type], .w = w, .tokens = tokens };
    switch (p.ops->kind) {
    case RL_KIND_FLOAT:
        p.act = act->f32;
        p.act_bytes = act->f32_bytes;
        p.run_bytes = RL_CPU_RUN * sizeof(float);
        p.unpacked_bytes = RL_CPU_RUN * sizeof(float);
        break;
    case RL_KIND_ROW:
        p.act = act->row8;
        p.act_bytes = act->row8_bytes;
        p.run_bytes = sizeof(rl_act_row8);
        p.unpacked_bytes = sizeof(rl_wgt_row8);
        break;
    default:
        p.act = act->run8;
        p.act_bytes = act->run8_bytes;
        p.run_bytes = sizeof(rl_act_run8);
        p.unpacked_bytes = sizeof(rl_wgt_run8);
        break;
    }
    return p;
}

/* Columns first .. first + cols - 1 of some rows for all tokens; y[i * y_stride + r - row_first].
 * first is a multiple of CHUNK. */
static void multiply_chunk(const product *p, uint32_t n, uint32_t row_first, uint32_t row_end,
                           uint32_t first, uint32_t cols, float *y, size_t y_stride)
{
    _Alignas(RL_CPU_ALIGN) uint8_t buffer[BUFFER_BYTES];
    const rl_quant_info *info = rl_quant_find(p->w->type);
    size_t skip_bytes = (size_t)first / info->block * info->block_bytes;
    size_t skip_act = first / RL_CPU_RUN * p->run_bytes;
    rl_cpu_tile tile = { .rows = buffer,
                         .row_bytes = rl_cpu_runs(cols) * p->unpacked_bytes,
                         .n_runs = p->ops->kind == RL_KIND_FLOAT ? cols : rl_cpu_runs(cols) };
    uint32_t rows = (uint32_t)(BUFFER_BYTES / tile.row_bytes);
    if (rows > ROWS) rows = ROWS;
    for (uint32_t r = row_first; r < row_end; r += tile.n_rows) {
        tile.n_rows = row_end - r < rows ? row_end - r : rows;
        for (uint32_t j = 0; j < tile.n_rows; j++)
            p->ops->unpack(p->w->data + (r + j) * p->w->row_bytes + skip_bytes, cols,
                           buffer + j * tile.row_bytes);
        for (uint32_t i = 0; i < n; i += tile.n_tokens) {
            tile.n_tokens = n - i < RL_CPU_TILE ? n - i : RL_CPU_TILE;
            for (uint32_t t = 0; t < tile.n_tokens; t++) {
                tile.act[t] = act_of(p, i + t) + skip_act;
                tile.y[t] = y + (i + t) * y_stride + (r - row_first);
            }
            p->k->matrix->tile[p->ops->kind](&tile);
        }
    }
}

/* Rows longer than CHUNK: no model of this family has them, but a file may. */
static void multiply_long(const product *p, uint32_t n, uint32_t row_first, uint32_t row_end,
                          float *y, size_t y_stride)
{
    float part[RL_CPU_TILE * ROWS];
    for (uint32_t i = 0; i < n; i += RL_CPU_TILE) {
        product some = *p;
        uint32_t n_some = n - i < RL_CPU_TILE ? n - i : RL_CPU_TILE;
        if (p->tokens)
            some.tokens += i;
        else
            some.act += i * p->act_bytes;
        for (uint32_t r = row_first; r < row_end; r += ROWS) {
            uint32_t end = row_end - r < ROWS ? row_end : r + ROWS;
            for (uint32_t first = 0; first < p->w->cols; first += CHUNK) {
                uint32_t cols = p->w->cols - first < CHUNK ? p->w->cols - first : CHUNK;
                multiply_chunk(&some, n_some, r, end, first, cols, part, ROWS);
                for (uint32_t t = 0; t < n_some; t++)
                    for (uint32_t j = r; j < end; j++) {
                        float *to = y + (i + t) * y_stride + j;
                        *to = part[t * ROWS + j - r] + (first ? *to : 0);
                    }
            }
        }
    }
}

void rl_cpu_matmul(const rl_cpu_kernels *k, const rl_cpu_matrix *w, const rl_cpu_act *act,
                   const uint32_t *tokens, uint32_t n, uint32_t row_first, uint32_t row_end,
                   float *y, size_t y_stride)
{
    RL_ASSERT(act->cols == w->cols && row_first <= row_end && row_end <= w->rows);
    RL_ASSERT(act->formats & rl_cpu_act_format(k, w->type));
    RL_ASSERT(tokens || n <= act->n_tokens);
    if (!n || row_first == row_end) return;
    product p = product_of(k, w, act, tokens);
    if (w->cols > CHUNK)
        multiply_long(&p, n, row_first, row_end, y, y_stride);
    else if (n == 1 && p.ops->matvec)
        p.ops->matvec(w->data + row_first * w->row_bytes, w->row_bytes, row_end - row_first,
                      w->cols, act_of(&p, 0), y + row_first);
    else
        multiply_chunk(&p, n, row_first, row_end, 0, w->cols, y + row_first, y_stride);
}
