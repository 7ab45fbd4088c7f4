// rl_route.comp - the choice of experts for tokens whose logits are there: batches of many tokens, choices
// that are given, stages that somebody observes. One token's choice is usually made at the end of its
// router's product (router.comp).
//
// Grid     one workgroup of 64 invocations per token; any subgroup size
// Reads, writes, numerics: choose.glsl; FORCED: the choice itself
// Push     rl_route_push
// Oracle   rl_router_topk(), backend/router.c          Test kernel.vulkan.route*
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(constant_id = 1) const uint FORCED = 0;
layout(push_constant, std430) uniform Push { rl_route_push p; };
#include "link.glsl"
#include "choose.glsl"

void main()
{
    rl_token token = rl_token(p.token);
    // A guess (no table) runs beside a choice that may halt meanwhile, and all must agree.
    uint halt = p.residency == 0ul ? 0u : token.v.halt, check = token.v.check;
    rl_choose(p, 0ul, gl_WorkGroupID.x, check != 0u, halt == 0u ? RL_CHOICE_MADE : RL_CHOICE_AHEAD);
}
