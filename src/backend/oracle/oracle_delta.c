/* oracle_delta.c - the gated delta net between its projections, token by token.
 *
 * docs/qwen3next.md 4.1 to 4.5 as written: convolution and SiLU, L2 norms, gates, decay, predict, write,
 * read, gated norm. The state is f32 between tokens; inside a token all is double. */
#include "backend/oracle/oracle.h"

#include <math.h>
#include <string.h>

enum { MAX_TAPS = 16, MAX_DIM = 1024 };

typedef struct delta_job {
    oracle *o;
    const rl_layer *layer;
    const oracle_layer_state *state;
    uint32_t from, to; /* copies: read, written */
} delta_job;

/* c[ch] for all tokens, in place of u; the stored columns and the new ones make the window. */
static void convolve(void *arg, uint32_t index, uint32_t thread)
{
    (void)thread;
    delta_job *job = arg;
    oracle *o = job->o;
    const rl_shape *s = &o->net->shape;
    const float *taps = job->layer->delta.conv.host;
    uint32_t channels = rl_shape_conv_channels(s), c = s->conv_taps, n = o->batch.n;
    const float *old = job->state->conv[job->from];
    float *kept = job->state->conv[job->to];
    uint32_t begin = index * 64, end = begin + 64 < channels ? begin + 64 : channels;
    for (uint32_t ch = begin; ch < end; ch++) {
        double window[MAX_TAPS];
        for (uint32_t j = 0; j + 1 < c; j++)
            window[j] = old[(size_t)j * channels + ch];
        for (uint32_t t = 0; t < n; t++) {
            double *u = &o->in[(size_t)t * channels + ch], sum = 0;
            window[c - 1] = *u;
            for (uint32_t j = 0; j < c; j++)
                sum += taps[(size_t)ch * c + j] * window[j];
            *u = oracle_silu(sum);
            for (uint32_t j = 0; j + 1 < c; j++)
                window[j] = window[j + 1];
        }
        for (uint32_t j = 0; j + 1 < c; j++)
            kept[(size_t)j * channels + ch] = (float)window[j];
    }
}

static void l2_normalise(const double *x, uint32_t n, double scale, double *out)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    scale /= sqrt(sum + 1e-6);
    for (uint32_t i = 0; i < n; i++)
        out[i] = x[i] * scale;
}

static double softplus(double x)
{
    return log1p(exp(-fabs(x))) + (x > 0 ? x : 0);
}

/* One value head, all tokens. */
static void recur(void *arg, uint32_t head, uint32_t thread)
{
    (void)thread;
    delta_job *job = arg;
    oracle *o = job->o;
    const rl_shape *s = &o->net->shape;
    const rl_delta_weights *w = &job->layer->delta;
    uint32_t d = s->delta_dim, hk = s->n_key_head, hv = s->n_value_head, r = hv / hk;
    uint32_t channels = rl_shape_conv_channels(s), key_head = head / r;
    const float *old = job->state->delta[job->from] + (size_t)head * d * d;
    float *state = job->state->delta[job->to] + (size_t)head * d * d;
    double q[MAX_DIM], k[MAX_DIM], e[MAX_DIM], out[MAX_DIM];

    memcpy(state, old, (size_t)d * d * sizeof *state);
    for (uint32_t t = 0; t < o->batch.n; t++) {
        const double *c = o->in + (size_t)t * channels;
        const double *v = c + (size_t)(2 * hk + head) * d;
        const double *m = o->ba + (size_t)t * 2 * hv + (size_t)key_head * 2 * r;
        double beta = oracle_sigmoid(m[head % r]);
        double decay =
            exp(oracle_f32(&w->a, head) * softplus(m[r + head % r] + oracle_f32(&w->dt, head)));
        l2_normalise(c + (size_t)key_head * d, d, 1 / sqrt(d), q);
        l2_normalise(c + (size_t)(hk + key_head) * d, d, 1, k);

        for (uint32_t j = 0; j < d; j++)
            e[j] = out[j] = 0;
        for (uint32_t i = 0; i < d; i++) /* what the decayed memory holds for k */
            for (uint32_t j = 0; j < d; j++)
                e[j] += k[i] * decay * state[(size_t)i * d + j];
        for (uint32_t j = 0; j < d; j++)
            e[j] = beta * (v[j] - e[j]);
        for (uint32_t i = 0; i < d; i++)
            for (uint32_t j = 0; j < d; j++) {
                double now = decay * state[(size_t)i * d + j] + k[i] * e[j];
                out[j] += q[i] * now;
                state[(size_t)i * d + j] = (float)now;
            }

        double sum = 0;
        for (uint32_t j = 0; j < d; j++)
            sum += out[j] * out[j];
        double scale = 1 / sqrt(sum / d + s->rms_eps);
        const double *z = o->z + ((size_t)t * hv + head) * d;
        double *y = o->y + ((size_t)t * hv + head) * d;
        for (uint32_t j = 0; j < d; j++)
            y[j] = out[j] * scale * oracle_f32(&w->norm, j) * oracle_silu(z[j]);
    }
}

void oracle_delta_step(oracle *o, uint32_t layer)
{
    const rl_state *state = o->batch.state;
    delta_job job = { .o = o,
                      .layer = &o->net->layers[layer],
                      .state = &state->layers[layer],
                      .from = state->current,
                      .to = !state->current };
    rl_pool_run(o->pool, convolve, &job, (rl_shape_conv_channels(&o->net->shape) + 63) / 64);
    rl_pool_run(o->pool, recur, &job, o->net->shape.n_value_head);
}
