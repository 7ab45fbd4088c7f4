// dot.glsl - the product of one decoded chunk with 32 inputs, in one fixed order of operations.
//
// Every kernel that multiplies single tokens uses these, so that two kernels which split the same
// work differently still agree to the bit; `precise` keeps compilers from doing the sums their way.

float rl_dot8(vec4 q0, vec4 q1, vec4 x0, vec4 x1)
{
    precise float s = q0.x * x0.x;
    s = rl_fma(q0.y, x0.y, s);
    s = rl_fma(q0.z, x0.z, s);
    s = rl_fma(q0.w, x0.w, s);
    s = rl_fma(q1.x, x1.x, s);
    s = rl_fma(q1.y, x1.y, s);
    s = rl_fma(q1.z, x1.z, s);
    s = rl_fma(q1.w, x1.w, s);
    return s;
}

// acc + chunk . x; sums [run] are the sums of the eight inputs of each run.
float rl_dot_chunk(rl_chunk c, vec4 x[8], vec4 sums, float before)
{
    precise float acc = before;
    [[unroll]] for (uint r = 0u; r < 4u; r++) {
        acc = rl_fma(c.a[r], rl_dot8(c.q[2u * r], c.q[2u * r + 1u], x[2u * r], x[2u * r + 1u]), acc);
#ifdef RL_OFFSET
        acc = rl_fma(c.b[r], sums[r], acc);
#endif
    }
    return acc;
}

float rl_sum8(vec4 x0, vec4 x1)
{
    precise vec4 s = x0 + x1;
    precise float sum = (s.x + s.y) + (s.z + s.w);
    return sum;
}
