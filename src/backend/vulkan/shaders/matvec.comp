// matvec.comp - y = W x for one token: dense matrices, and the matrices of chosen experts.
//
// Grid     x: teams of rows, y: ranks (routed), z: tokens
// Team, numerics, links: product.glsl
// Reads    x and, by INPUT, aux; the weights; with ADD what is added; routed: the chosen experts' ids
//          and where the residency table says that they are
// Writes   y [token][rank][rows]; nothing for ranks outside the mask or absent, or on a halt of
//          another value than `despite`
// Push     rl_matvec_push
// Oracle   matrix products of backend/oracle            Test kernel.vulkan.matvec*
#version 460
#extension GL_GOOGLE_include_directive : require
#define RL_PRODUCT
#ifdef RL_INTEGER
#extension GL_EXT_spirv_intrinsics : require
#endif
#include "common.glsl"
#include "decode.glsl"
#include "dot.glsl"
#define RL_LINK_CONSTANT 10
#include "link.glsl"

layout(push_constant, std430) uniform Push { rl_matvec_push p; };
#include "product.glsl"

void main()
{
    product();
    rl_arrive(p.token, p.link);
}
