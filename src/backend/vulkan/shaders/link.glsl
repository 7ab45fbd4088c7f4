// link.glsl - dispatches that follow each other without a barrier: one starts while the one before still
// runs, brings what does not depend on it, and waits for it by itself.
//
// Dispatches of one token that may run beside each other are a stage. Every workgroup of a stage that
// arrives adds one to the stage's counter when all that it writes is written; workgroups of the next stage
// wait until the counter has grown by the number of the stage's workgroups since the token began: it is
// `turn` times as large. Counters only grow, so nothing sets them back between tokens; every workgroup
// arrives, whatever it has or has not computed, so they stay right when a token halts.
//
// What a workgroup has written comes before its arrival (release), and that before what those read who have
// seen it (acquire); memory that is handed on is `coherent` (RL_HANDED_ON). Both ends take some 0.3 us on an
// H200, and are still cheaper than a barrier. Vulkan's memory model, where memory is made visible in their
// place, was 2 % faster; but under it Mesa 22.3's software device loses invocations at barriers.
//
// What Vulkan does not promise is that the stage before gets a compute unit while this one waits. So only
// devices link that are known to start workgroups in the order of their dispatches (vk_candidate.c), and the
// waiting ends at last: then `late` says that the token is worth nothing, its kernels go on with whatever
// numbers there are, nobody waits any more, and the host runs the token again with barriers. One invocation
// of a workgroup looks at the counter: eight were 15 % slower for all, since looks delay arrivals.
//
// Only in modules with RL_LINKS. RL_LINK_CONSTANT is the number of the constant LINK.
#ifdef RL_LINKS
#extension GL_KHR_memory_scope_semantics : require
layout(constant_id = RL_LINK_CONSTANT) const uint LINK = 0; // sum of RL_LINK_...
layout(buffer_reference, std430, buffer_reference_align = 4) RL_HANDED_ON buffer rl_counter { uint n; };
const uint RL_PATIENCE = 1u << 17; // looks at a counter: some 60 ms on an H200
const int LINK_MEMORY = gl_StorageSemanticsBuffer | gl_StorageSemanticsShared;

rl_counter rl_counter_of(rl_token token, uint stage)
{
    return rl_counter(token.v.counters + uint64_t(RL_LINK_STRIDE * stage));
}

// All invocations of a workgroup have done what is before, and see it, before one does what is behind.
void rl_meet()
{
    controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, LINK_MEMORY, gl_SemanticsAcquireRelease);
}

bool rl_has_come(rl_counter counter, uint wanted)
{
    uint n = atomicLoad(counter.n, gl_ScopeDevice, gl_StorageSemanticsBuffer, gl_SemanticsAcquire);
    return int(n - wanted) >= 0;
}

// Waits for a stage of so many workgroups. All invocations of a workgroup call it. A software device runs
// one dispatch after the other, so one look tells; and Mesa 22.3's loses invocations behind the loop.
void rl_await_stage(uint64_t token_at, uint stage, uint groups)
{
    if (gl_LocalInvocationIndex == 0u) {
        rl_token token = rl_token(token_at);
        rl_counter counter = rl_counter_of(token, stage);
        uint wanted = groups * token.v.turn;
        bool late = token.v.late != 0u, come = late || rl_has_come(counter, wanted);
        if (!RL_SOFTWARE)
            for (uint looks = 0u; looks < RL_PATIENCE && !come; looks++)
                come = rl_has_come(counter, wanted);
        if (!come) token.v.late = 1u;
    }
    rl_meet();
}

void rl_await(uint64_t token_at, uint link) // for the stage before
{
    rl_await_stage(token_at, (link >> RL_LINK_STAGE) - 1u, link & RL_LINK_GROUPS);
}

void rl_arrive(uint64_t token_at, uint link)
{
    if ((LINK & RL_LINK_ARRIVES) == 0u) return;
    rl_meet();
    if (gl_LocalInvocationIndex == 0u)
        atomicAdd(rl_counter_of(rl_token(token_at), link >> RL_LINK_STAGE).n, 1u, gl_ScopeDevice,
                  gl_StorageSemanticsBuffer, gl_SemanticsRelease);
}
#else
const uint LINK = 0u;
#define rl_await_stage(token, stage, groups)
#define rl_await(token, link)
#define rl_arrive(token, link)
#endif
const bool WAITS = (LINK & RL_LINK_WAITS) != 0u, WAITS_FIRST = (LINK & RL_LINK_WAITS_FIRST) != 0u;
