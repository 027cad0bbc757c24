/* scan.c - cumsum, cumprod, logcumsumexp, cummax, cummin, linear_scan: results of all entries so far along a dimension.
 * Floats are carried in float64. Along the last dimension a line is walked; along another, columns side by side. */
#include "../kernel.h"
#include "../scalar.h"
#include "../thread.h"

enum {
    LINES = 4,               /* walked at once */
    COLUMNS = 256,           /* worked on together: their carries stay in L1 */
    TASK = 32 * 1024,        /* elements per task: about 30 us */
    SERIAL = 2 * TASK        /* at most so many elements are not worth waking a thread */
};

typedef struct scan {
    const gd_view *x, *b;    /* b: linear_scan's second input */
    const gd_view *out;
    int64_t *places;         /* laid out as out */
    int dim;
    bool reverse;
    int64_t n, lines, group, units, task_units, panels; /* group: lines of a unit */
    void (*unit)(const struct scan *r, int64_t u);
} scan;

/* A unit is a group of lines, or COLUMNS of them that lie side by side (or as many as are left): it starts here. */
typedef struct unit_place {
    int64_t i[4], columns;
} unit_place;

static unit_place line_place(const scan *r, int64_t line) {
    unit_place p = {{0}, 1};
    for (int d = 2; d >= 0; d--) {
        if (d == r->dim) continue;
        p.i[d] = line % r->out->shape[d];
        line /= r->out->shape[d];
    }
    return p;
}

static unit_place place_of(const scan *r, int64_t u) {
    if (r->dim == 3) {
        unit_place p = line_place(r, u * r->group);
        p.columns = r->lines - u * r->group < r->group ? r->lines - u * r->group : r->group;
        return p;
    }
    unit_place p = line_place(r, u / r->panels);
    p.i[3] = u % r->panels * COLUMNS;
    p.columns = r->out->shape[3] - p.i[3] < COLUMNS ? r->out->shape[3] - p.i[3] : COLUMNS;
    return p;
}

static int64_t offset_of(const gd_view *v, const unit_place *p) {
    int64_t offset = 0;
    for (int d = 0; d < GD_DIMS; d++) offset += p->i[d] * v->strides[d];
    return offset;
}

static void some_units(void *ctx, int64_t i, int worker) {
    const scan *r = ctx;
    const int64_t last = (i + 1) * r->task_units < r->units ? (i + 1) * r->task_units : r->units;
    (void)worker;
    for (int64_t u = i * r->task_units; u < last; u++) r->unit(r, u);
}

static scan scan_of(const gd_args *a) {
    scan r = {.x = a->in[0], .out = a->out[0], .dim = (int)a->attr->i[0], .reverse = a->attr->i[1] != 0};
    r.n = r.out->shape[r.dim];
    r.group = 1;
    r.panels = (r.out->shape[3] + COLUMNS - 1) / COLUMNS;
    return r;
}

static void run_scan(scan *r) {
    const int64_t all = gd_numel(r->out);
    if (all == 0) return;
    r->lines = all / r->n;
    r->units = r->dim == 3 ? (r->lines + r->group - 1) / r->group : r->lines / r->out->shape[3] * r->panels;
    const int64_t each = (all + r->units - 1) / r->units;
    r->task_units = all <= SERIAL ? r->units : each < TASK ? TASK / each : 1;
    if (r->task_units >= r->units) some_units(r, 0, 0);
    else gd_parallel((r->units + r->task_units - 1) / r->task_units, some_units, r);
}

/* ---- One number is carried --------------------------------------------------------------------------------- */

/* y[k] = the carry after entry k: STEP(carry, entry), from START on. Several lines are walked at once, because each
 * step waits for the one before. */
#define DEFINE_SCAN(name, T, CARRY, TO, START, STEP)                                                         \
    static void name(const scan *r, int64_t u) {                                                             \
        const unit_place p = place_of(r, u);                                                                 \
        const int64_t xs = r->x->strides[r->dim], ys = r->out->strides[r->dim], xc = r->x->strides[3];       \
        const int64_t by = r->reverse ? -1 : 1, end = r->reverse ? -1 : r->n, start = r->reverse ? r->n - 1 : 0; \
        if (r->dim == 3) {                                                                                   \
            const T *x[LINES];                                                                               \
            TO *y[LINES];                                                                                    \
            CARRY c[LINES];                                                                                  \
            for (int64_t l = 0; l < LINES; l++) {                                                            \
                const unit_place line = line_place(r, u * LINES + (l < p.columns ? l : 0));                  \
                x[l] = (const T *)r->x->data + offset_of(r->x, &line);                                       \
                y[l] = (TO *)r->out->data + offset_of(r->out, &line);                                        \
                c[l] = START;                                                                                \
            }                                                                                                \
            if (p.columns == LINES)                                                                          \
                for (int64_t k = start; k != end; k += by)                                                   \
                    for (int l = 0; l < LINES; l++) {                                                        \
                        c[l] = STEP(c[l], (CARRY)x[l][k * xs]);                                              \
                        y[l][k * ys] = (TO)c[l];                                                             \
                    }                                                                                        \
            else                                                                                             \
                for (int64_t l = 0; l < p.columns; l++)                                                      \
                    for (int64_t k = start; k != end; k += by) {                                             \
                        c[l] = STEP(c[l], (CARRY)x[l][k * xs]);                                              \
                        y[l][k * ys] = (TO)c[l];                                                             \
                    }                                                                                        \
            return;                                                                                          \
        }                                                                                                    \
        const T *x = (const T *)r->x->data + offset_of(r->x, &p);                                            \
        TO *y = (TO *)r->out->data + offset_of(r->out, &p);                                                  \
        CARRY carry[COLUMNS];                                                                                \
        for (int64_t j = 0; j < p.columns; j++) carry[j] = START;                                            \
        for (int64_t k = start; k != end; k += by) {                                                         \
            const T *row = x + k * xs;                                                                       \
            TO *to = y + k * ys;                                                                             \
            for (int64_t j = 0; j < p.columns; j++) {                                                        \
                carry[j] = STEP(carry[j], (CARRY)row[j * xc]);                                               \
                to[j] = (TO)carry[j];                                                                        \
            }                                                                                                \
        }                                                                                                    \
    }

#define PLUS(c, v) ((c) + (v))
#define TIMES(c, v) ((c) * (v))

/* log(exp(a) + exp(b)) */
static double log_add(double a, double b) {
    if (a != a || b != b) return a + b;
    const double most = a > b ? a : b, least = a > b ? b : a;
    if (most == least && !(most - most == 0)) return most; /* both infinite, of one sign */
    return most + gd_log1p_f64(gd_exp_f64(least - most));
}

DEFINE_SCAN(sum_f32, float, double, float, 0, PLUS)
DEFINE_SCAN(sum_f64, double, double, double, 0, PLUS)
DEFINE_SCAN(sum_i64, int64_t, uint64_t, int64_t, 0, PLUS)
DEFINE_SCAN(sum_i32, int32_t, int64_t, int64_t, 0, PLUS)
DEFINE_SCAN(sum_bool, uint8_t, int64_t, int64_t, 0, PLUS)
DEFINE_SCAN(product_f32, float, double, float, 1, TIMES)
DEFINE_SCAN(product_f64, double, double, double, 1, TIMES)
DEFINE_SCAN(product_i64, int64_t, uint64_t, int64_t, 1, TIMES)
DEFINE_SCAN(product_i32, int32_t, uint64_t, int64_t, 1, TIMES)
DEFINE_SCAN(product_bool, uint8_t, uint64_t, int64_t, 1, TIMES)
DEFINE_SCAN(lse_f32, float, double, float, -(double)__builtin_inff(), log_add)
DEFINE_SCAN(lse_f64, double, double, double, -__builtin_inf(), log_add)

typedef void scan_unit(const scan *r, int64_t u);

void GD_KERNEL(cumsum)(const gd_args *a) {
    static scan_unit *const units[GD_DTYPES] = {sum_f32, sum_f64, sum_i64, sum_i32, sum_bool};
    scan r = scan_of(a);
    r.group = LINES;
    r.unit = units[r.x->dtype];
    run_scan(&r);
}

void GD_KERNEL(cumprod)(const gd_args *a) {
    static scan_unit *const units[GD_DTYPES] = {product_f32, product_f64, product_i64, product_i32, product_bool};
    scan r = scan_of(a);
    r.group = LINES;
    r.unit = units[r.x->dtype];
    run_scan(&r);
}

void GD_KERNEL(logcumsumexp)(const gd_args *a) {
    scan r = scan_of(a);
    r.group = LINES;
    r.unit = r.x->dtype == GD_FLOAT32 ? lse_f32 : lse_f64;
    run_scan(&r);
}

/* ---- linear_scan: y[k] = b[k] + a[k] y[k - 1], or with a[k + 1] y[k + 1] ----------------------------------------- */

#define DEFINE_LINEAR(name, T)                                                                               \
    static void linear_##name(const scan *r, int64_t u) {                                                    \
        const unit_place p = place_of(r, u);                                                                 \
        const int64_t as = r->x->strides[r->dim], bs = r->b->strides[r->dim], ys = r->out->strides[r->dim];  \
        const int64_t ac = r->x->strides[3], bc = r->b->strides[3];                                          \
        const int64_t by = r->reverse ? -1 : 1, end = r->reverse ? -1 : r->n, start = r->reverse ? r->n - 1 : 0; \
        const T *a = (const T *)r->x->data + offset_of(r->x, &p) + (r->reverse ? as : 0);                    \
        const T *b = (const T *)r->b->data + offset_of(r->b, &p);                                            \
        T *y = (T *)r->out->data + offset_of(r->out, &p);                                                    \
        for (int64_t j = 0; j < p.columns; j++) {                                                            \
            double c = (double)b[start * bs + j * bc];                                                       \
            y[start * ys + j] = (T)c;                                                                        \
            for (int64_t k = start + by; k != end; k += by) {                                                \
                c = (double)b[k * bs + j * bc] + (double)a[k * as + j * ac] * c;                             \
                y[k * ys + j] = (T)c;                                                                        \
            }                                                                                                \
        }                                                                                                    \
    }
DEFINE_LINEAR(f32, float)
DEFINE_LINEAR(f64, double)

void GD_KERNEL(linear_scan)(const gd_args *a) {
    scan r = scan_of(a);
    r.b = a->in[1];
    r.unit = r.x->dtype == GD_FLOAT32 ? linear_f32 : linear_f64;
    run_scan(&r);
}

/* ---- cummax, cummin: of equal ones the last; a NaN stays -------------------------------------------------------- */

#define DEFINE_EXTREME(name, T, BETTER)                                                                      \
    static void name(const scan *r, int64_t u) {                                                             \
        const unit_place p = place_of(r, u);                                                                 \
        const int64_t xs = r->x->strides[r->dim], ys = r->out->strides[r->dim], xc = r->x->strides[3];       \
        const T *x = (const T *)r->x->data + offset_of(r->x, &p);                                            \
        const int64_t to = offset_of(r->out, &p);                                                            \
        T *y = (T *)r->out->data + to;                                                                       \
        int64_t *places = r->places + to;                                                                    \
        for (int64_t j = 0; j < p.columns; j++) {                                                            \
            T best = x[j * xc];                                                                              \
            int64_t place = 0;                                                                               \
            for (int64_t k = 0; k < r->n; k++) {                                                             \
                const T v = x[k * xs + j * xc];                                                              \
                if (v != v || v BETTER best) best = v, place = k;                                            \
                y[k * ys + j] = best;                                                                        \
                places[k * ys + j] = place;                                                                  \
            }                                                                                                \
        }                                                                                                    \
    }
DEFINE_EXTREME(most_f32, float, >=)
DEFINE_EXTREME(most_f64, double, >=)
DEFINE_EXTREME(most_i64, int64_t, >=)
DEFINE_EXTREME(most_i32, int32_t, >=)
DEFINE_EXTREME(most_bool, uint8_t, >=)
DEFINE_EXTREME(least_f32, float, <=)
DEFINE_EXTREME(least_f64, double, <=)
DEFINE_EXTREME(least_i64, int64_t, <=)
DEFINE_EXTREME(least_i32, int32_t, <=)
DEFINE_EXTREME(least_bool, uint8_t, <=)

static void run_extreme(const gd_args *a, scan_unit *const *units) {
    scan r = scan_of(a);
    r.places = a->out[1]->data;
    r.unit = units[r.x->dtype];
    run_scan(&r);
}

void GD_KERNEL(cummax)(const gd_args *a) {
    static scan_unit *const units[GD_DTYPES] = {most_f32, most_f64, most_i64, most_i32, most_bool};
    run_extreme(a, units);
}
void GD_KERNEL(cummin)(const gd_args *a) {
    static scan_unit *const units[GD_DTYPES] = {least_f32, least_f64, least_i64, least_i32, least_bool};
    run_extreme(a, units);
}
