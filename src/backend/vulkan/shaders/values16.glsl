// values16.glsl - types whose nibbles name one of 16 floats in shared memory.
#define RL_TABLE_SIZE 16
#include "table.glsl"

vec4 rl_look_up(uint nibbles) // bits 0..3 of each byte
{
    return uintBitsToFloat(uvec4(rl_table_word(nibbles & 15u), rl_table_word((nibbles >> 8) & 15u),
                                 rl_table_word((nibbles >> 16) & 15u), rl_table_word((nibbles >> 24) & 15u)));
}
