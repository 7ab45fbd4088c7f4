// product.glsl - y = W x for one token: what matvec.comp does, and router.comp before it chooses.
//
// A kernel of a few microseconds is as fast as its longest chain of loads. So everything a workgroup
// needs is on its way before it waits for the first of it: the input, the codebook, and the words of
// the weights that it begins with (ROWS rows, ITERS chunks per lane). The input is prepared once and
// shared, by BLOCKS times ROWS rows of every team.
// And it is as slow as its instructions are many: a token runs a different kernel every few
// microseconds, so code is read afresh each time. The products are loops over one copy of the code;
// words that wait in registers move up one place per round, since registers cannot be indexed.
//
// Team     TEAM neighbouring lanes of a subgroup (a power of two) share rows; each lane takes every
//          TEAM-th chunk of 32 weights, so the order of additions is fixed
// Needs    rl_matvec_push p, by that name; link.glsl
// Numerics f32 on exactly decoded weights, or products of bytes to the same precision (RL_INTEGER,
//          dot.glsl); the RMS of the norm is found beside the products and
//          applied to the sums, since it is one factor for all of them
// RL_LINKS: dispatches that may wait for each other by themselves (link.glsl): x, aux (not the norm's
//          weights), what is added and, unless their stage is counted, y are numbered then, and who is void
//          gives void numbers. A routed product takes its input while the choice is still made, and then
//          the choice.
layout(constant_id = 1) const uint ROWS = 4;
layout(constant_id = 2) const uint TEAM = 32;
layout(constant_id = 3) const uint INPUT = 0;
layout(constant_id = 4) const uint MATRIX = 0;
layout(constant_id = 5) const uint ADD = 0;
layout(constant_id = 6) const uint CHUNKS = 64;     // of a row
layout(constant_id = 7) const uint TILE = 64;       // chunks that are in shared memory at a time
layout(constant_id = 8) const uint HEAD_PARTS = 4;  // RL_INPUT_HEADS: partial sums per head
layout(constant_id = 9) const uint BLOCKS = 1;      // times ROWS rows of a team, one after the other

const bool PAIR = MATRIX == RL_MATRIX_PAIR || MATRIX == RL_MATRIX_ROUTED_PAIR;
const bool ROUTED = MATRIX == RL_MATRIX_ROUTED || MATRIX == RL_MATRIX_ROUTED_PAIR;
const bool ACROSS_IN = ROUTED && INPUT != RL_INPUT_NORM, ACROSS_OUT = ROUTED && INPUT == RL_INPUT_NORM;
const uint OUTPUTS = PAIR ? ROWS / 2u : ROWS;       // per team
const uint ITERS = (TILE + TEAM - 1u) / TEAM;       // chunks per lane and tile
const uint SHARE = (8u * TILE + RL_LOCAL - 1u) / RL_LOCAL; // vectors of the input per invocation
const bool FETCHES_AHEAD = TAKES && !ROUTED && !RL_SOFTWARE; // before it takes anything
// Linked, a stage is often less than a wave of workgroups, so nobody else computes while a team waits for its
// next rows: they are on their way while it multiplies. Elsewhere, and for types of many words, that costs more
// registers than it is worth.
const bool OVERLAPS = TAKES && BLOCKS > 1u && RL_RAW <= 8u && !RL_SOFTWARE;
const bool EVEN = CHUNKS % TEAM == 0u && CHUNKS <= TILE; // every lane has a chunk in every step

const uint STAGE_LINE = TILE + 1u;
#include "stage.glsl"
shared float squares_of[64];
shared float head_scale[RL_VK_MAX_HEADS]; // RL_INPUT_HEADS
#ifdef RL_LINKS
shared uint64_t chosen_slot;
#endif

struct input_part {
    vec4 x, aux;
};

// Vector i of the input. at: address of x.
void load_input(uint64_t at, uint i, inout input_part v)
{
    if (ACROSS_IN) i = rl_across(i, CHUNKS);
    v.x = rl_values4(at).v[i];
    uint token = gl_WorkGroupID.z, rank = gl_WorkGroupID.y;
    if (INPUT == RL_INPUT_SWIGLU)
        v.aux = rl_values4(p.aux + 4ul * uint64_t(token * p.x_token + rank * p.x_rank)).v[i];
}

vec4 prepare(input_part v, uint i, inout float squares)
{
    if (INPUT == RL_INPUT_NORM) {
        squares += dot(v.x, v.x);
        return v.x * v.aux;
    }
    if (INPUT == RL_INPUT_SWIGLU) return rl_swiglu4(v.x, v.aux);
    if (INPUT == RL_INPUT_HEADS) return v.x * head_scale[4u * i / p.head];
    return v.x;
}

// Where vector n of the tile's input is in the row, in vectors.
uint source_of(uint n, uint first_chunk)
{
    return (rl_index(first_chunk + (n >> 3), (n & 7u) >> 1, CHUNKS) >> 2) + (n & 1u);
}

uint source_of_part(uint k, uint tile)
{
    uint n = min(gl_LocalInvocationIndex + k * RL_LOCAL, 8u * TILE - 1u);
    return source_of(min(n, 8u * (CHUNKS - tile) - 1u), tile);
}

void load_norm(uint tile, inout input_part parts[SHARE])
{
    if (INPUT == RL_INPUT_NORM)
        [[unroll]] for (uint k = 0u; k < SHARE; k++)
            parts[k].aux = rl_floats4(p.aux).v[source_of_part(k, tile)];
}

void load_inputs(uint64_t at, uint tile, inout input_part parts[SHARE])
{
    uint looks = 0u, off;
    if (!TAKES) {
        [[unroll]] for (uint k = 0u; k < SHARE; k++)
            load_input(at, source_of_part(k, tile), parts[k]);
        return;
    }
    rl_expect(at, 4u * source_of_part(SHARE - 1u, tile) + 3u);
    do {
        off = 0u;
        [[unroll]] for (uint k = 0u; k < SHARE; k++) {
            parts[k].x = rl_look4(at, source_of_part(k, tile), off);
            if (INPUT == RL_INPUT_SWIGLU) parts[k].aux = rl_look4(p.aux, source_of_part(k, tile), off);
        }
    } while (rl_look_again(off, looks));
}

// RL_INPUT_HEADS: what a head is scaled by, from its sums of squares.
void load_head_scales(uint token)
{
    uint heads = p.cols / p.head;
    for (uint i = gl_LocalInvocationIndex; i < heads; i += RL_LOCAL) {
        uint first = (token * heads + i) * HEAD_PARTS, looks = 0u, off;
        float sum;
        do {
            float part[HEAD_PARTS];
            off = 0u;
            sum = 0.0;
            [[unroll]] for (uint k = 0u; k < HEAD_PARTS; k++)
                part[k] = TAKES ? uintBitsToFloat(rl_look(p.aux, first + k, off))
                                : rl_values(p.aux).v[first + k];
            [[unroll]] for (uint k = 0u; k < HEAD_PARTS; k++)
                sum += part[k];
        } while (TAKES && rl_look_again(off, looks));
        head_scale[i] = inversesqrt(sum / float(p.head) + p.eps);
    }
}

// Address of the slot of the expert of this rank; 0: absent, or void.
uint64_t slot_of(uint token, uint rank)
{
    if (!TAKES) return rl_addresses(p.residency).v[rl_numbers(p.ids).v[token * p.ranks + rank]];
#ifdef RL_LINKS
    if (gl_LocalInvocationIndex == 0u) {
        uint looks = 0u, off;
        uvec2 slot;
        do {
            off = 0u;
            slot = rl_look_slot(p.ids, rank, off);
        } while (rl_look_again(off, looks));
        chosen_slot = off == 0u ? packUint2x32(slot) : 0ul;
    }
    barrier();
    return chosen_slot;
#else
    return 0ul;
#endif
}

// Byte of the matrix at which the team's k-th row begins.
uint row_of(uint first, uint k)
{
    return min(first + (PAIR ? k >> 1 : k), p.rows - 1u) * p.row_bytes;
}

rl_raw raw[ROWS * ITERS], raw_next[ROWS * ITERS]; // of the rows under way; of those behind them (OVERLAPS)

// The words of ROWS rows, from chunk g on: all are on their way before the first is waited for.
void fetch_rows(rl_words w, rl_words w_second, uint first, uint g, bool next)
{
    [[unroll]] for (uint i = 0u; i < ITERS; i++) {
        uint at = EVEN ? g + i * TEAM : min(g + i * TEAM, CHUNKS - 1u);
        [[unroll]] for (uint k = 0u; k < ROWS; k++) {
            rl_raw r;
            rl_fetch_row(PAIR && (k & 1u) != 0u ? w_second : w, row_of(first, k), at, CHUNKS, r);
            if (next)
                raw_next[i * ROWS + k] = r;
            else
                raw[i * ROWS + k] = r;
        }
    }
}

// What is added to the product of the row that this lane writes: it has been there since before the input was
// made. Lanes that write none load too, since the code is faster without a branch (2.5 % of a token on an H200),
// but wait for nothing: who gives nothing is not waited for before a place is written again.
float take_added(uint row, uint lane)
{
    uint looks = 0u, off, bits;
    do {
        off = 0u;
        bits = rl_look(p.add, min(row, p.rows - 1u), off);
        if (lane >= OUTPUTS || row >= p.rows) off = 0u;
    } while (rl_look_again(off, looks));
    return uintBitsToFloat(bits);
}

// Where a row's result is, among those of its token and rank.
uint place_of(uint row)
{
    return ACROSS_OUT ? 4u * rl_across(row >> 2, p.rows / 32u) + (row & 3u) : row;
}

void give_void(uint row, uint lane)
{
    if (GIVES)
        for (uint b = 0u; b < BLOCKS; b++, row += OUTPUTS)
            if (lane < OUTPUTS && row < p.rows) rl_give_void(p.y, gl_WorkGroupID.y * p.rows + place_of(row));
}

void product()
{
    uint rank = gl_WorkGroupID.y, token = gl_WorkGroupID.z, id = gl_LocalInvocationIndex;
    if (ROUTED && ((p.mask >> rank) & 1u) == 0u) return;

    uint lane = gl_SubgroupInvocationID & (TEAM - 1u), teams = gl_SubgroupSize / TEAM;
    uint team = (gl_WorkGroupID.x * gl_NumSubgroups + gl_SubgroupID) * teams +
                gl_SubgroupInvocationID / TEAM;
    uint first = team * (BLOCKS * OUTPUTS);

    // First what depends on nothing, and if this dispatch takes what is numbered, what depends on no other.
    input_part parts[SHARE];
    rl_table_part table;
    uint64_t base = p.w;
    if (TAKES) {
        load_norm(0u, parts);
        rl_table_fetch(p.tables, table);
        if (FETCHES_AHEAD)
            fetch_rows(rl_words(p.w), rl_words(p.w + (PAIR ? p.second : 0ul)), first, lane, false);
    }
    rl_link_begin(p.token, p.link);
    uint halt = TAKES ? 0u : rl_token(p.token).v.halt;
    uint64_t x = p.x + 4ul * uint64_t(token * p.x_token + rank * p.x_rank);
    uint64_t slot = ROUTED && !TAKES ? slot_of(token, rank) : 0ul;
    if (!TAKES) load_norm(0u, parts);
    float added = ADD == RL_ADD_NUMBERED ? take_added(first + lane, lane) : 0.0;
    load_inputs(x, 0u, parts);
    if (!TAKES) rl_table_fetch(p.tables, table);
    if (INPUT == RL_INPUT_HEADS) load_head_scales(token);
    if (ROUTED && !TAKES) {
        if (slot == 0ul) return;
        base += slot;
    }
    rl_words w = rl_words(base), w_second = rl_words(base + (PAIR ? p.second : 0ul));
    uint64_t y = p.y + 4ul * uint64_t(token * p.y_token + rank * p.rows);
    uint64_t add = p.add + 4ul * uint64_t(token * p.y_token);
    float acc[ROWS];
    float squares = 0.0;

    for (uint tile = 0u; tile < CHUNKS; tile += TILE) {
        if (tile != 0u) {
            if (TAKES) barrier(); // all have seen whether the first tile was void
            load_norm(tile, parts);
            load_inputs(x, tile, parts);
        }
        bool fetched = FETCHES_AHEAD && tile == 0u, fetches_later = ROUTED && TAKES && tile == 0u;
        if (!RL_SOFTWARE && !fetched && !fetches_later)
            fetch_rows(w, w_second, first, tile + lane, false);
        if (tile != 0u) {
            barrier(); // the tile before has been read
        } else {
            rl_table_store(table);
            if (INPUT == RL_INPUT_HEADS) barrier();
        }
        [[dont_unroll]] for (uint k = 0u; k < SHARE; k++) {
            uint n = id + k * RL_LOCAL;
            bool inside = n < 8u * TILE && tile + (n >> 3) < CHUNKS;
            rl_stage(n, inside, inside ? prepare(parts[0], source_of(n, tile), squares) : vec4(0.0));
            [[unroll]] for (uint r = 0u; r + 1u < SHARE; r++)
                parts[r] = parts[r + 1u];
        }
        if (INPUT == RL_INPUT_NORM && tile + TILE >= CHUNKS) {
            squares = subgroupAdd(squares);
            if (gl_SubgroupInvocationID == 0u) squares_of[gl_SubgroupID] = squares;
        }
        barrier();
        if (halt != 0u && halt != p.despite) return;
        if (TAKES && tile == 0u) {
            if (ROUTED) slot = slot_of(token, rank); // with a barrier, behind which all agree on what is void
            if (rl_is_void() || (ROUTED && slot == 0ul)) {
                give_void(first + lane, lane);
                return;
            }
            if (ROUTED) {
                base += slot;
                w = rl_words(base);
                w_second = rl_words(base + (PAIR ? p.second : 0ul));
                if (!RL_SOFTWARE) fetch_rows(w, w_second, first, lane, false);
            }
        }

        [[dont_unroll]] for (uint b = 0u; b < BLOCKS; b++) {
            if (b != 0u) {
                first += OUTPUTS;
                if (OVERLAPS)
                    [[unroll]] for (uint r = 0u; r < ROWS * ITERS; r++)
                        raw[r] = raw_next[r];
                else if (!RL_SOFTWARE)
                    fetch_rows(w, w_second, first, tile + lane, false);
                if (ADD == RL_ADD_NUMBERED) added = take_added(first + lane, lane);
            }
            if (OVERLAPS && b + 1u < BLOCKS) fetch_rows(w, w_second, first + OUTPUTS, tile + lane, true);
            if (tile == 0u)
                [[unroll]] for (uint k = 0u; k < ROWS; k++)
                    acc[k] = 0.0;
            [[dont_unroll]] for (uint i = 0u; i < ITERS; i++) {
                uint place = lane + i * TEAM, g = tile + place;
                rl_input v = rl_staged(min(place, TILE - 1u));
                [[dont_unroll]] for (uint k = 0u; k < ROWS; k++) {
                    rl_chunk c;
                    uint row = row_of(first, k);
                    if (RL_SOFTWARE)
                        rl_decode_row(PAIR && (k & 1u) != 0u ? w_second : w, row, min(g, CHUNKS - 1u),
                                      CHUNKS, c);
                    else
                        rl_expand_row(raw[0], row, g, CHUNKS, c);
                    float sum = acc[0];
                    if (EVEN || (g < CHUNKS && place < TILE)) sum = rl_dot_chunk(c, v, sum);
                    [[unroll]] for (uint r = 0u; r + 1u < ROWS; r++)
                        acc[r] = acc[r + 1u];
                    acc[ROWS - 1u] = sum;
                    [[unroll]] for (uint r = 0u; r + 1u < ROWS * ITERS; r++)
                        raw[r] = raw[r + 1u];
                }
            }
            if (tile + TILE < CHUNKS) continue;
            vec2 mine = vec2(0.0); // sums of the row, or the pair of rows, that this lane writes
            [[dont_unroll]] for (uint k = 0u; k < ROWS; k++) {
                float sum = rl_team_sum(acc[0], TEAM);
                [[unroll]] for (uint r = 0u; r + 1u < ROWS; r++)
                    acc[r] = acc[r + 1u];
                if (lane == (PAIR ? k >> 1 : k)) mine = vec2(PAIR && (k & 1u) != 0u ? mine.x : sum, sum);
            }
            if (INPUT == RL_INPUT_NORM) {
                squares = 0.0;
                [[dont_unroll]] for (uint k = 0u; k < gl_NumSubgroups; k++)
                    squares += squares_of[k];
                mine *= inversesqrt(squares / float(p.cols) + p.eps);
            }
            uint row = first + lane;
            if (lane < OUTPUTS && row < p.rows) {
                float value = PAIR ? rl_silu(mine.x) * mine.y : mine.x;
                if (ADD == RL_ADD_PLAIN) value += rl_values(add).v[row];
                if (ADD == RL_ADD_NUMBERED) value += added;
                row = place_of(row);
                // Last the number: who depends on it may lead to the next writer of the plain value.
                if (!GIVES || (!ROUTED && p.ids != 0ul)) rl_values(GIVES ? p.ids : y).v[row] = value;
                if (GIVES) rl_give(p.y, rank * p.rows + row, value);
            }
        }
    }
}
