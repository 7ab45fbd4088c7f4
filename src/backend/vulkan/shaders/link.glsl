// link.glsl - dispatches that follow each other without a barrier: one starts while the one before still
// runs, brings what does not depend on it, and waits for the rest by itself.
//
// What is handed on is numbered: 64 bits per value, the value and the number of the token and the layer that it
// belongs to. Who needs a value looks until its number is right. So there is nothing else to wait for, and
// nothing to make visible before or after: a value is there or it is not. A place is written once per layer and
// token, and whoever writes it again depends on all who have read it: every stage needs something from each
// workgroup of the one before, or from one that does.
//
// One stage of a layer is counted instead, since every workgroup of the next one reads all that it makes: the
// experts' first matrices. Each of its workgroups adds to the layer's counter when all that it writes is written
// (release), and the next stage waits until the counter has grown by the number of workgroups since the token
// began (acquire): it is `turn` times as large. Counters only grow, and every workgroup arrives, whatever it has
// or has not computed.
//
// Looking costs, since looks are in the way of what they look for. So until one value has come, one lane of a
// subgroup looks at that alone, and then all at all; and values lie such that lanes which load four neighbours
// each load what lies side by side (rl_place).
//
// A token that halts goes on with void numbers: a workgroup that takes one computes nothing, and gives void
// numbers in its turn. So all of its invocations agree, and a halt is no memory that somebody else may write
// meanwhile.
//
// What Vulkan does not promise: that a value and its number, which are stored by one instruction at a multiple
// of 8 bytes, are seen together; and that the stage before gets a compute unit while this one waits. So only
// devices link that are known for both (vk_candidate.c), and the waiting ends at last: then `late` says that the
// token is worth nothing, what follows is void, and the host runs the token again with barriers.
//
// Only in modules with RL_LINKS. RL_LINK_CONSTANT is the number of the constant LINK.
#ifdef RL_LINKS
#extension GL_KHR_memory_scope_semantics : require
layout(constant_id = RL_LINK_CONSTANT) const uint LINK = 0; // sum of RL_LINK_...
layout(buffer_reference, std430, buffer_reference_align = 8) coherent volatile buffer rl_numbered { uvec2 v[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) coherent volatile buffer rl_numbered2 { uvec4 v[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) RL_HANDED_ON buffer rl_counter { uint n; };
const uint RL_PATIENCE = 1u << 17; // looks: some 60 ms on an H200
const int LINK_MEMORY = gl_StorageSemanticsBuffer | gl_StorageSemanticsShared;
#else
const uint LINK = 0u;
#endif
const bool TAKES = (LINK & RL_LINK_TAKES) != 0u, GIVES = (LINK & RL_LINK_GIVES) != 0u;
const bool WAITS = (LINK & RL_LINK_WAITS) != 0u, ARRIVES = (LINK & RL_LINK_ARRIVES) != 0u;

#ifdef RL_LINKS
shared uint link_void; // not 0: something that this workgroup has taken was void
uint link_number;      // of this token and layer
uint64_t link_token;

// All invocations of a workgroup have done what is before, and see it, before one does what is behind.
void rl_meet()
{
    controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, LINK_MEMORY, gl_SemanticsAcquireRelease);
}

// Before anything else of this file, by all invocations.
void rl_link_begin(uint64_t token_at, uint link)
{
    if (LINK == 0u) return;
    link_token = token_at;
    link_number = (rl_token(token_at).v.turn << RL_NUMBER_LAYER | link >> RL_LINK_LAYER) & ~RL_NUMBER_VOID;
    if (gl_LocalInvocationIndex == 0u) link_void = 0u;
    barrier();
}

// Where value i is: of 128 values the first two of every four, then the others, so that lanes which load four
// neighbouring values each, in two loads, load what lies side by side.
uint rl_place(uint i)
{
    return (i & ~127u) | (i & 2u) << 5 | (i >> 1 & 62u) | (i & 1u);
}

// A value's bits, and in `off` what its number differs by.
uint rl_look(uint64_t at, uint i, inout uint off)
{
    uvec2 w = rl_numbered(at).v[rl_place(i)];
    off |= w.y ^ link_number;
    return w.x;
}

vec4 rl_look4(uint64_t at, uint i, inout uint off) // values 4 i ..
{
    uint place = (i & ~31u) * 2u | (i & 31u);
    uvec4 a = rl_numbered2(at).v[place], b = rl_numbered2(at).v[place + 32u];
    off |= (a.y ^ link_number) | (a.w ^ link_number) | (b.y ^ link_number) | (b.w ^ link_number);
    return uintBitsToFloat(uvec4(a.x, a.z, b.x, b.z));
}

// Whether what was looked at has come.
bool rl_has_come(uint off)
{
    return (off & ~RL_NUMBER_VOID) == 0u;
}

// Before a look at many values, by whole subgroups: until value i has come, or for long enough.
void rl_expect(uint64_t at, uint i)
{
    if (RL_SOFTWARE || gl_SubgroupInvocationID != 0u) return;
    for (uint n = 0u; n < RL_PATIENCE; n++) {
        uint off = 0u;
        rl_look(at, i, off);
        if (rl_has_come(off)) break;
    }
}

void rl_be_late()
{
    link_void = 1u;
    rl_token(link_token).v.late = 1u;
}

// Whether to look once more. What came void is remembered. A software device runs one dispatch after the
// other, so one look tells; and Mesa 22.3's loses invocations behind a loop.
bool rl_look_again(uint off, inout uint looks)
{
    if (rl_has_come(off)) {
        if (off != 0u) link_void = 1u;
        return false;
    }
    if (!RL_SOFTWARE && ++looks < RL_PATIENCE) return true;
    rl_be_late();
    return false;
}

void rl_give_bits(uint64_t at, uint i, uint bits, uint mark) // mark: 0 or RL_NUMBER_VOID
{
    rl_numbered(at).v[rl_place(i)] = uvec2(bits, link_number | mark);
}

void rl_give(uint64_t at, uint i, float v)
{
    rl_give_bits(at, i, floatBitsToUint(v), 0u);
}

void rl_give_void(uint64_t at, uint i)
{
    rl_give_bits(at, i, 0u, RL_NUMBER_VOID);
}

// Address of the slot of a numbered choice's rank, in two words.
uvec2 rl_look_slot(uint64_t choice, uint rank, inout uint off)
{
    uvec2 slot;
    [[unroll]] for (uint k = 0u; k < 2u; k++)
        slot[k] = rl_look(choice, rank * RL_CHOICE_WORDS + RL_CHOICE_SLOT + k, off);
    return slot;
}

void rl_link_next_layer() // what is given from here on is for it
{
    link_number++;
}

// After a barrier behind all that was taken: the same for all invocations.
bool rl_is_void()
{
    return TAKES && link_void != 0u;
}

rl_counter rl_counter_of(uint64_t token_at, uint link)
{
    return rl_counter(rl_token(token_at).v.counters + uint64_t(RL_LINK_STRIDE * (link >> RL_LINK_LAYER)));
}

// Waits for the counted stage before. All invocations of a workgroup call it, but one looks: looks delay
// arrivals.
void rl_await(uint64_t token_at, uint link)
{
    if (gl_LocalInvocationIndex == 0u) {
        rl_counter counter = rl_counter_of(token_at, link);
        uint wanted = (link & RL_LINK_GROUPS) * rl_token(token_at).v.turn, looks = 0u;
        bool come;
        do
            come = int(atomicLoad(counter.n, gl_ScopeDevice, gl_StorageSemanticsBuffer, gl_SemanticsAcquire) -
                       wanted) >= 0;
        while (!come && !RL_SOFTWARE && ++looks < RL_PATIENCE);
        if (!come) rl_be_late();
    }
    rl_meet();
}

void rl_arrive(uint64_t token_at, uint link)
{
    if (!ARRIVES) return;
    rl_meet();
    if (gl_LocalInvocationIndex == 0u)
        atomicAdd(rl_counter_of(token_at, link).n, 1u, gl_ScopeDevice, gl_StorageSemanticsBuffer,
                  gl_SemanticsRelease);
}
#else
#define rl_link_begin(token, link)
#define rl_look(at, i, off) 0u
#define rl_look4(at, i, off) vec4(0.0)
#define rl_look_slot(choice, rank, off) uvec2(0u)
#define rl_expect(at, i)
#define rl_look_again(off, looks) false
#define rl_give(at, i, v)
#define rl_give_bits(at, i, bits, mark)
#define rl_give_void(at, i)
#define rl_link_next_layer()
#define rl_is_void() false
#define rl_await(token, link)
#define rl_arrive(token, link)
#endif
