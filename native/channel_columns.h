/* channel_columns.h - batch norm of small planes, (N, C) above all: a strip of columns, some whole channels, goes through
 * all samples at once. Part of channel_norm_driver.h. */
#ifndef GRADINO_CHANNEL_COLUMNS_H
#define GRADINO_CHANNEL_COLUMNS_H

/* Sample n of channels first .. first + channels, side by side. */
static inline const void *channel_row(const gd_channels *v, int64_t n, int64_t first, int64_t channels, void *buffer) {
    if (v->dense && (v->c_step == v->s || v->c == 1)) return channel_plane(v, n, first);
    char *to = buffer;
    for (int64_t c = first; c < first + channels; c++)
        for (int64_t row = 0; row < v->h; row++, to += v->w * v->bytes)
            gd_walk_copy(to, channel_plane(v, n, c) + row * v->h_step * v->bytes, v->w_step, v->w, v->bytes);
    return buffer;
}

#define GD_DEFINE_CHANNEL_COLUMNS(name, T)                                                                    \
    /* The constants of each column. */                                                                       \
    typedef struct channel_columns_##name { T high[GD_CHANNEL_STRIP], low[GD_CHANNEL_STRIP], scale[GD_CHANNEL_STRIP], w[GD_CHANNEL_STRIP]; } channel_columns_##name; \
    static inline void channel_spread_##name(const gd_channel_run *r, int64_t first, int64_t channels, channel_columns_##name *k) { \
        for (int64_t c = 0, j = 0; c < channels; c++) {                                                       \
            const gd_norm_##name constants = channel_constants_##name(channel_stats(r, first + c));           \
            const T w = channel_number_##name(r->w, r->w_step, first + c, 1);                                 \
            for (int64_t i = 0; i < r->x.s; i++, j++) k->high[j] = constants.high, k->low[j] = constants.low, k->scale[j] = constants.scale, k->w[j] = w; \
        }                                                                                                     \
    }                                                                                                         \
    static void channel_strip_moments_##name(const gd_channel_run *r, int64_t first, int64_t channels) {      \
        int64_t buffer[GD_CHANNEL_STRIP];                                                                     \
        double s[GD_CHANNEL_STRIP] = {0}, q[GD_CHANNEL_STRIP] = {0}, about[GD_CHANNEL_STRIP];                 \
        const int64_t columns = channels * r->x.s;                                                            \
        for (int64_t j = 0; j < columns; j++) about[j] = channel_stats(r, first + j / r->x.s)[0];             \
        for (int64_t n = 0; n < r->x.n; n++) {                                                                \
            const T *x = channel_row(&r->x, n, first, channels, buffer);                                      \
            for (int64_t j = 0; j < columns; j++) {                                                           \
                const double d = (double)x[j] - about[j];                                                     \
                s[j] += d;                                                                                    \
                q[j] = GD_FMA(d, d, q[j]);                                                                    \
            }                                                                                                 \
        }                                                                                                     \
        for (int64_t c = 0, j = 0; c < channels; c++) {                                                       \
            double *stats = channel_stats(r, first + c), sum = 0, squares = 0;                                \
            for (int64_t i = 0; i < r->x.s; i++, j++) sum += s[j], squares += q[j];                           \
            const double shift = sum / (double)r->count;                                                      \
            stats[0] += shift;                                                                                \
            channel_finish(r, stats, squares / (double)r->count - shift * shift);                             \
        }                                                                                                     \
    }                                                                                                         \
    static void channel_strip_##name(const gd_channel_run *r, int64_t first, int64_t channels) {              \
        int64_t buffer[GD_CHANNEL_STRIP];                                                                     \
        channel_columns_##name k;                                                                             \
        T b[GD_CHANNEL_STRIP];                                                                                \
        const int64_t columns = channels * r->x.s;                                                            \
        for (int64_t c = 0; c < channels && r->own; c++) channel_stats(r, first + c)[0] = (double)*(const T *)channel_plane(&r->x, 0, first + c); \
        for (int pass = 0; pass < r->passes && r->own; pass++) channel_strip_moments_##name(r, first, channels); \
        channel_spread_##name(r, first, channels, &k);                                                        \
        for (int64_t j = 0; j < columns; j++) b[j] = channel_number_##name(r->b, r->b_step, first + j / r->x.s, 0); \
        for (int64_t n = 0; n < r->x.n; n++) {                                                                \
            const T *x = channel_row(&r->x, n, first, channels, buffer);                                      \
            T *y = (T *)r->out + (n * r->x.c + first) * r->x.s;                                               \
            for (int64_t j = 0; j < columns; j++) y[j] = GD_FMA((x[j] - k.high[j] - k.low[j]) * k.scale[j], k.w[j], b[j]); \
        }                                                                                                     \
    }                                                                                                         \
    static void channel_strip_bwd_##name(const gd_channel_run *r, int64_t first, int64_t channels) {          \
        int64_t x_buffer[GD_CHANNEL_STRIP], g_buffer[GD_CHANNEL_STRIP];                                       \
        channel_columns_##name k;                                                                             \
        double sum[2][GD_CHANNEL_STRIP] = {{0}};                                                              \
        T xh[GD_CHANNEL_STRIP], term[GD_CHANNEL_STRIP], a[2][GD_CHANNEL_STRIP];                               \
        int some[GD_CHANNEL_STRIP] = {0};                                                                     \
        const int64_t columns = channels * r->x.s;                                                            \
        channel_spread_##name(r, first, channels, &k);                                                        \
        for (int64_t n = 0; n < r->x.n; n++) {                                                                \
            const T *x = channel_row(&r->x, n, first, channels, x_buffer), *g = channel_row(&r->g, n, first, channels, g_buffer); \
            for (int64_t j = 0; j < columns; j++) some[j] |= g[j] != 0;                                       \
            for (int64_t j = 0; j < columns; j++) xh[j] = (x[j] - k.high[j] - k.low[j]) * k.scale[j];         \
            for (int64_t j = 0; j < columns; j++) term[j] = g[j] == 0 ? 0 : g[j] * xh[j];                     \
            for (int64_t j = 0; j < columns; j++) sum[0][j] += (double)g[j];                                  \
            for (int64_t j = 0; j < columns; j++) sum[1][j] += (double)term[j];                               \
        }                                                                                                     \
        for (int64_t c = 0; c < channels; c++) {                                                              \
            double total[2] = {0, 0};                                                                         \
            int any = 0;                                                                                      \
            const int64_t from = c * r->x.s, to = from + r->x.s;                                              \
            for (int64_t j = from; j < to; j++) total[0] += sum[0][j], total[1] += sum[1][j], any |= some[j]; \
            if (r->dw) ((T *)r->dw)[first + c] = (T)total[1];                                                 \
            if (r->db) ((T *)r->db)[first + c] = (T)total[0];                                                 \
            for (int64_t j = from; j < to; j++) {                                                             \
                const double w = r->own ? (double)k.w[j] / (double)r->count : 0;                              \
                a[0][j] = (T)(total[0] * w), a[1][j] = (T)(total[1] * w), some[j] = any;                      \
            }                                                                                                 \
        }                                                                                                     \
        for (int64_t n = 0; n < r->x.n && r->out; n++) {                                                      \
            const T *x = channel_row(&r->x, n, first, channels, x_buffer), *g = channel_row(&r->g, n, first, channels, g_buffer); \
            T *dx = (T *)r->out + (n * r->x.c + first) * r->x.s;                                              \
            if (r->own) {                                                                                     \
                for (int64_t j = 0; j < columns; j++) xh[j] = (x[j] - k.high[j] - k.low[j]) * k.scale[j];     \
                for (int64_t j = 0; j < columns; j++) dx[j] = k.scale[j] * GD_FMA(-a[1][j], xh[j], g[j] * k.w[j] - a[0][j]); \
                for (int64_t j = 0; j < columns; j++) dx[j] = some[j] ? dx[j] : 0;                            \
            } else {                                                                                          \
                for (int64_t j = 0; j < columns; j++) dx[j] = some[j] ? k.scale[j] * (g[j] * k.w[j]) : 0;     \
            }                                                                                                 \
        }                                                                                                     \
    }
GD_DEFINE_CHANNEL_COLUMNS(f32, float)
GD_DEFINE_CHANNEL_COLUMNS(f64, double)

#endif
