// router.comp - a router's product (RL_INPUT_NORM, one token) and the choice of experts in one dispatch.
//
// One workgroup more than the product needs chooses ahead, among old logits and for nothing: so the code of the
// choice (choose.glsl), which is read once per layer and would be waited for, has arrived. With numbered logits
// that workgroup takes them and makes the choice, too. Otherwise the workgroup that is the last to have written
// its logits does. Who is last is counted in a word of memory, which the last sets back to 0; so workgroups of a
// halted token are counted too. On a halt nothing is chosen either.
//
// Grid     x: teams of rows, and one workgroup
// Team, numerics, links: product.glsl
// Reads    x, the norm's weights, the router; residency of the layer
// Writes   logits, and what choose.glsl writes
// Push     rl_router_push
// Oracle   matrix products of backend/oracle, rl_router_topk()      Test kernel.vulkan.router*
#version 460
#extension GL_GOOGLE_include_directive : require
#define RL_PRODUCT
#include "common.glsl"
#include "decode.glsl"
#include "dot.glsl"
#define RL_LINK_CONSTANT 10
#include "link.glsl"

const uint FORCED = 0;
layout(push_constant, std430) uniform Push { rl_router_push router; };
rl_matvec_push p; // what of it the product needs
#include "choose.glsl"
#include "product.glsl"

shared bool chooses;

// Whether this workgroup chooses, since it is the last to have written its logits.
bool is_last()
{
    rl_token token = rl_token(router.route.token);
    // What this workgroup has written comes before its arrival, and that before what the last one reads.
    rl_meet();
    if (gl_LocalInvocationIndex == 0u) {
        rl_numbers arrivals = rl_numbers(router.arrivals);
        uint before = atomicAdd(arrivals.v[0], 1u, gl_ScopeDevice, gl_StorageSemanticsBuffer,
                                gl_SemanticsAcquireRelease);
        bool last = before == gl_NumWorkGroups.x - 2u;
        uint halt = token.v.halt;
        if (last) arrivals.v[0] = 0u;
        chooses = last && (halt == 0u || halt == p.despite); // one answer for all, whatever the others saw
    }
    rl_meet();
    return chooses;
}

void main()
{
    rl_route_push route = router.route;
    bool check = rl_token(route.token).v.check != 0u;
    p.w = router.w;
    p.x = router.x;
    p.aux = router.aux;
    p.y = route.logits;
    p.add = p.ids = 0ul;
    p.token = route.token;
    p.cols = router.cols;
    p.rows = route.n_expert;
    p.row_bytes = router.row_bytes;
    p.x_rank = p.x_token = p.y_token = 0u; // there is one token
    p.despite = router.despite;
    p.eps = router.eps;
    p.link = router.link;
    bool ahead = gl_WorkGroupID.x == gl_NumWorkGroups.x - 1u; // the extra workgroup
    uint first = RL_CHOICE_AHEAD, last = RL_CHOICE_AHEAD;
    if (!ahead) {
        product();
        if (TAKES || !is_last()) return;
        first = last = RL_CHOICE_MADE;
    } else if (TAKES) {
        rl_link_begin(p.token, p.link);
        last = RL_CHOICE_MADE;
    }
    [[dont_unroll]] for (uint how = first; how <= last; how++)
        rl_choose(route, router.arrivals, 0u, check, how);
}
