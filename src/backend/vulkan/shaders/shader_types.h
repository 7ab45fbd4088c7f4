/* shader_types.h - what C and the shaders must agree on: structs in GPU memory and push constants.
 *
 * Read by both compilers. Every struct is laid out alike by C and by std430: 64-bit members first,
 * then 32-bit ones, size a multiple of 8 where a 64-bit member is inside. The C side asserts sizes.
 * Addresses are device addresses of f32 arrays unless a comment says otherwise. */
#ifndef RL_SHADER_TYPES_H
#define RL_SHADER_TYPES_H

#ifdef GL_core_profile
#define RL_U64 uint64_t
#define RL_U32 uint
#define RL_F32 float
#else
#include <stddef.h>
#include <stdint.h>
#define RL_U64 uint64_t
#define RL_U32 uint32_t
#define RL_F32 float
#endif

/* ---- the codebook buffer: 32-bit words, made by vk_tables.c ------------------------------------- */

#define RL_TABLE_IQ1     0    /* 2048 x u16: 8 codes of 2 bits: 0: 0, 1: +1, 3: -1 */
#define RL_TABLE_IQ2_XXS 1024 /* 256 x 8 bytes                                     */
#define RL_TABLE_IQ2_XS  1536 /* 512 x 8 bytes                                     */
#define RL_TABLE_IQ2_S   2560 /* 1024 x 8 bytes                                    */
#define RL_TABLE_IQ3_XXS 4608 /* 256 x 4 bytes                                     */
#define RL_TABLE_IQ3_S   4864 /* 512 x 4 bytes                                     */
#define RL_TABLE_IQ4_NL  5376 /* 16 x f32                                          */
#define RL_TABLE_MXFP4   5392 /* 16 x f32                                          */
#define RL_TABLE_WORDS   5408

/* ---- one chosen expert -------------------------------------------------------------------------- */

struct rl_vk_route_entry {
    RL_U64 address; /* of the slot; 0: not resident */
    RL_U32 expert;
    RL_F32 weight;
};

/* ---- push constants ----------------------------------------------------------------------------- */

/* How matvec.comp reads its input (specialisation constant INPUT). */
#define RL_INPUT_PLAIN  0 /* x                                                          */
#define RL_INPUT_NORM   1 /* rms(x) * aux: aux [cols] are the norm's weights            */
#define RL_INPUT_HEADS  2 /* x scaled per head: aux [cols / head][parts] sums of squares */
#define RL_INPUT_SWIGLU 3 /* silu(x) * aux                                              */

/* How it finds its matrix (MATRIX). */
#define RL_MATRIX_PLAIN       0 /* at w                                                       */
#define RL_MATRIX_PAIR        1 /* two: at w and at w + second; the output is silu(first)*second */
#define RL_MATRIX_ROUTED      2 /* in the slot of the expert of rank WorkGroupID.y, at w bytes   */
#define RL_MATRIX_ROUTED_PAIR 3

struct rl_matvec_push {
    RL_U64 w;      /* address of the weights, or their offset in the slot                */
    RL_U64 second; /* bytes from the first to the second matrix of a pair                */
    RL_U64 x;
    RL_U64 aux;
    RL_U64 y;
    RL_U64 add;    /* added to y; read only with the constant ADD                        */
    RL_U64 route;  /* rl_vk_route_entry [token][rank]                                    */
    RL_U64 tables; /* codebooks                                                          */
    RL_U32 cols, rows;
    RL_U32 row_bytes;
    RL_U32 head;    /* RL_INPUT_HEADS: values per head                                   */
    RL_U32 parts;   /* RL_INPUT_HEADS: partial sums per head                             */
    RL_U32 x_rank;  /* routed: floats from one rank's input to the next                  */
    RL_U32 ranks;   /* routed: K                                                         */
    RL_U32 mask;    /* routed: ranks that take part, one bit each                        */
    RL_U32 x_token; /* floats from one token's input to the next (WorkGroupID.z)         */
    RL_U32 y_token;
    RL_F32 eps;
    RL_U32 unused;
};

#ifndef GL_core_profile
typedef struct rl_vk_route_entry rl_vk_route_entry;
typedef struct rl_matvec_push rl_matvec_push;
_Static_assert(sizeof(rl_vk_route_entry) == 16, "as in std430");
_Static_assert(sizeof(rl_matvec_push) == 112, "as in std430");
#endif

#endif
