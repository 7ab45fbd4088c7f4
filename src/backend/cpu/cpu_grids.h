/* cpu_grids.h - the codebooks of the IQ types with the offset of the integer kernels already in.
 *
 * A weight is stored as an unsigned byte code + offset (cpu_matrix.h, fold types). A positive
 * weight of magnitude g is therefore the table's byte t = g + offset, a negative one 2 offset - t.
 * The 1-bit types store 8 (grid + 1); their shifts of +-1/8 are part of m. Private to
 * src/backend/cpu. */
#ifndef RL_BACKEND_CPU_GRIDS_H
#define RL_BACKEND_CPU_GRIDS_H

#include <stdint.h>

extern const uint64_t rl_cpu_grid_iq2xxs[256]; /* offset 43 */
extern const uint64_t rl_cpu_grid_iq2xs[512];  /* offset 43 */
extern const uint64_t rl_cpu_grid_iq2s[1024];  /* offset 43 */
extern const uint32_t rl_cpu_grid_iq3xxs[256]; /* offset 62 */
extern const uint32_t rl_cpu_grid_iq3s[512];   /* offset 15 */
extern const uint64_t rl_cpu_grid_iq1s[2048];  /* bytes 0, 8, 16 */

#endif
