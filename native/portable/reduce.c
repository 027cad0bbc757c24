/* reduce.c - sum, mean, prod, amax, amin, any, all: the folds; reduce.h walks the input with them.
 * Sums of float32 are float32 inside a block of 1024 and float64 beyond, so 1e8 ones give 1e8. */
#include "reduce.h"

/* Lanes are independent accumulators, one per vector element of the widest machine. */
enum { LANES = 16 };
enum { AHEAD = 8 }; /* rows of a panel to ask for early: they may be too far apart for the machine to guess */
#define EACH_LANE for (int l = 0; l < LANES; l++)

#define OR(a, v) ((a) | (v))
#define AND(a, v) ((a) & (v))
#define SAME(v) (v)
#define TRUTH(v) ((v) != 0)

/* gd_fold.rows for elements T, accumulators A starting at INIT, out.F. */
#define DEFINE_ROWS(name, T, A, F, INIT, STEP, LOAD)                                                  \
    static void name##_rows(const void *xv, int64_t stride, int64_t rows, int64_t n, gd_partial *out) { \
        const T *x = xv;                                                                              \
        for (int64_t r = 0; r < rows; r++, x += stride) {                                             \
            GD_FOLD_SHORT(A, F, INIT, STEP, LOAD)                                                     \
            A acc[LANES];                                                                             \
            int64_t k = 0;                                                                            \
            EACH_LANE acc[l] = INIT;                                                                  \
            for (; k + LANES <= n; k += LANES) EACH_LANE acc[l] = (A)STEP(acc[l], (A)LOAD(x[k + l])); \
            for (int l = 0; k + l < n; l++) acc[l] = (A)STEP(acc[l], (A)LOAD(x[k + l]));              \
            for (int half = LANES / 2; half; half /= 2)                                               \
                for (int l = 0; l < half; l++) acc[l] = (A)STEP(acc[l], acc[l + half]);               \
            out[r].F = acc[0];                                                                        \
        }                                                                                             \
    }

/* gd_fold.columns: the lanes of every column in L1, row after row. Narrow strips get their own copy. */
#define DEFINE_COLUMNS(name, T, A, F, INIT, STEP)                                                     \
    static inline __attribute__((always_inline)) void name##_strip(const T *x, const int64_t *offsets, \
                                                                   int64_t n, int cols, A (*acc)[GD_PANEL], gd_partial *out) { \
        EACH_LANE for (int c = 0; c < cols; c++) acc[l][c] = INIT;                                    \
        for (int64_t k = 0; k < n; k++) {                                                             \
            const T *row = x + offsets[k];                                                            \
            A *lane = acc[k % LANES];                                                                 \
            if (cols > LANES && k + AHEAD < n) gd_walk_ask(x + offsets[k + AHEAD], cols, sizeof(T));   \
            for (int c = 0; c < cols; c++) lane[c] = (A)STEP(lane[c], (A)row[c]);                     \
        }                                                                                             \
        for (int half = LANES / 2; half; half /= 2)                                                   \
            for (int l = 0; l < half; l++)                                                            \
                for (int c = 0; c < cols; c++) acc[l][c] = (A)STEP(acc[l][c], acc[l + half][c]);      \
        for (int c = 0; c < cols; c++) out[c].F = acc[0][c];                                          \
    }                                                                                                 \
    static void name##_columns(const void *x, const int64_t *offsets, int64_t n, int64_t cols, gd_partial *out) { \
        A acc[LANES][GD_PANEL];                                                                       \
        if (cols == GD_PANEL) name##_strip(x, offsets, n, GD_PANEL, acc, out);                        \
        else name##_strip(x, offsets, n, (int)cols, acc, out);                                        \
    }

#define DEFINE_FOLD(name, T, A, F, INIT, STEP)       \
    DEFINE_ROWS(name, T, A, F, INIT, STEP, SAME)     \
    DEFINE_COLUMNS(name, T, A, F, INIT, STEP)

GD_DEFINE_FINISH(f32, float, p[k].f)
GD_DEFINE_FINISH(f64, double, p[k].f)
GD_DEFINE_FINISH(i64, int64_t, p[k].i)
GD_DEFINE_FINISH(i32, int32_t, p[k].i)
GD_DEFINE_FINISH(bool, uint8_t, p[k].i)
GD_DEFINE_FINISH(mean_f32, float, p[k].f / (double)count)
GD_DEFINE_FINISH(mean_f64, double, p[k].f / (double)count)

#define FOLD(T, fold, joiner, finisher, F, nothing) \
    {sizeof(T), fold##_rows, fold##_columns, join_##joiner, finish_##finisher, {.F = nothing}}
#define ROWS_FOLD(T, fold, joiner, finisher, F, nothing) \
    {sizeof(T), fold##_rows, NULL, join_##joiner, finish_##finisher, {.F = nothing}}

#define DEFINE_KERNEL(op)                                             \
    void GD_KERNEL(op)(const gd_args *a) {                            \
        gd_fold_all(&op##_folds[a->in[0]->dtype], a->in[0], a->attr->i[0], a->out[0]->data); \
    }

/* ---- sum, mean, prod: integers wrap -------------------------------------------------------------- */

DEFINE_FOLD(sum_f32, float, float, f, 0, GD_ADD)
DEFINE_FOLD(sum_f64, double, double, f, 0, GD_ADD)
DEFINE_FOLD(sum_i64, uint64_t, uint64_t, i, 0, GD_ADD)
DEFINE_FOLD(sum_i32, int32_t, int64_t, i, 0, GD_ADD)
DEFINE_FOLD(sum_bool, uint8_t, int64_t, i, 0, GD_ADD)
DEFINE_FOLD(sum_f32_f64, float, double, f, 0, GD_ADD)
GD_DEFINE_JOIN(add_float, double, f, GD_ADD)
GD_DEFINE_JOIN(add_int, uint64_t, i, GD_ADD)

static const gd_fold sum_folds[GD_DTYPES] = {
    [GD_FLOAT32] = FOLD(float, sum_f32, add_float, f32, f, 0),
    [GD_FLOAT64] = FOLD(double, sum_f64, add_float, f64, f, 0),
    [GD_INT64] = FOLD(int64_t, sum_i64, add_int, i64, i, 0),
    [GD_INT32] = FOLD(int32_t, sum_i32, add_int, i64, i, 0),
    [GD_BOOL] = FOLD(uint8_t, sum_bool, add_int, i64, i, 0),
};
DEFINE_KERNEL(sum)

static const gd_fold mean_folds[GD_DTYPES] = {
    [GD_FLOAT32] = FOLD(float, sum_f32_f64, add_float, mean_f32, f, 0),
    [GD_FLOAT64] = FOLD(double, sum_f64, add_float, mean_f64, f, 0),
};
DEFINE_KERNEL(mean)

DEFINE_FOLD(prod_f32, float, double, f, 1, GD_MUL)
DEFINE_FOLD(prod_f64, double, double, f, 1, GD_MUL)
DEFINE_ROWS(prod_i64, uint64_t, uint64_t, i, 1, GD_MUL, SAME)
DEFINE_ROWS(prod_i32, int32_t, uint64_t, i, 1, GD_MUL, SAME)
DEFINE_ROWS(prod_bool, uint8_t, uint64_t, i, 1, GD_MUL, SAME)
GD_DEFINE_JOIN(mul_float, double, f, GD_MUL)
GD_DEFINE_JOIN(mul_int, uint64_t, i, GD_MUL)

static const gd_fold prod_folds[GD_DTYPES] = {
    [GD_FLOAT32] = FOLD(float, prod_f32, mul_float, f32, f, 1),
    [GD_FLOAT64] = FOLD(double, prod_f64, mul_float, f64, f, 1),
    [GD_INT64] = ROWS_FOLD(int64_t, prod_i64, mul_int, i64, i, 1),
    [GD_INT32] = ROWS_FOLD(int32_t, prod_i32, mul_int, i64, i, 1),
    [GD_BOOL] = ROWS_FOLD(uint8_t, prod_bool, mul_int, i64, i, 1),
};
DEFINE_KERNEL(prod)

/* ---- amax, amin: NaN wins ------------------------------------------------------------------------ */

#define INF_F __builtin_inff()
#define INF_D __builtin_inf()
#if defined(__AVX2__)
enum { VECTOR_BYTES = 32 };
#else
enum { VECTOR_BYTES = 16 };
#endif

/* gd_fold.rows for the larger (MORE is >) or smaller (<) of floats T, with I the integer of that size:
 * the same lanes and ties as DEFINE_ROWS, but in vectors, as compilers do not find them by themselves. */
#define DEFINE_EXTREME_ROWS(name, T, I, INIT, STEP, MORE)                                              \
    typedef T name##_vector __attribute__((vector_size(VECTOR_BYTES)));                                \
    typedef I name##_bits __attribute__((vector_size(VECTOR_BYTES)));                                  \
    static inline name##_vector name##_step(name##_vector a, const T *x) {                             \
        name##_vector v;                                                                               \
        memcpy(&v, x, sizeof v);                                                                       \
        name##_bits take = (v MORE a) | (v != v);                                                      \
        return (name##_vector)(((name##_bits)v & take) | ((name##_bits)a & ~take));                    \
    }                                                                                                  \
    static void name##_rows(const void *xv, int64_t stride, int64_t rows, int64_t n, gd_partial *out) { \
        enum { WIDTH = VECTOR_BYTES / sizeof(T), VECTORS = LANES / WIDTH };                            \
        const T *x = xv;                                                                               \
        for (int64_t r = 0; r < rows; r++, x += stride) {                                              \
            GD_FOLD_SHORT(T, f, INIT, STEP, SAME)                                                      \
            T acc[LANES];                                                                              \
            int64_t k = 0;                                                                             \
            EACH_LANE acc[l] = INIT;                                                                   \
            if (n >= LANES) {                                                                          \
                name##_vector a[VECTORS];                                                              \
                memcpy(a, acc, sizeof a);                                                              \
                for (; k + LANES <= n; k += LANES)                                                     \
                    for (int i = 0; i < VECTORS; i++) a[i] = name##_step(a[i], x + k + i * WIDTH);     \
                memcpy(acc, a, sizeof a);                                                              \
            }                                                                                          \
            for (int l = 0; k + l < n; l++) acc[l] = STEP(acc[l], x[k + l]);                           \
            for (int half = LANES / 2; half; half /= 2)                                                \
                for (int l = 0; l < half; l++) acc[l] = STEP(acc[l], acc[l + half]);                   \
            out[r].f = acc[0];                                                                         \
        }                                                                                              \
    }                                                                                                  \
    DEFINE_COLUMNS(name, T, T, f, INIT, STEP)

DEFINE_EXTREME_ROWS(amax_f32, float, int32_t, -INF_F, GD_MAX, >)
DEFINE_EXTREME_ROWS(amax_f64, double, int64_t, -INF_D, GD_MAX, >)
DEFINE_ROWS(amax_i64, int64_t, int64_t, i, INT64_MIN, GD_MAX, SAME)
DEFINE_ROWS(amax_i32, int32_t, int32_t, i, INT32_MIN, GD_MAX, SAME)
DEFINE_ROWS(amax_bool, uint8_t, uint8_t, i, 0, GD_MAX, SAME)
GD_DEFINE_JOIN(max_float, double, f, GD_MAX)
GD_DEFINE_JOIN(max_int, int64_t, i, GD_MAX)

static const gd_fold amax_folds[GD_DTYPES] = {
    [GD_FLOAT32] = FOLD(float, amax_f32, max_float, f32, f, -INF_D),
    [GD_FLOAT64] = FOLD(double, amax_f64, max_float, f64, f, -INF_D),
    [GD_INT64] = ROWS_FOLD(int64_t, amax_i64, max_int, i64, i, INT64_MIN),
    [GD_INT32] = ROWS_FOLD(int32_t, amax_i32, max_int, i32, i, INT32_MIN),
    [GD_BOOL] = ROWS_FOLD(uint8_t, amax_bool, max_int, bool, i, 0),
};
DEFINE_KERNEL(amax)

DEFINE_EXTREME_ROWS(amin_f32, float, int32_t, INF_F, GD_MIN, <)
DEFINE_EXTREME_ROWS(amin_f64, double, int64_t, INF_D, GD_MIN, <)
DEFINE_ROWS(amin_i64, int64_t, int64_t, i, INT64_MAX, GD_MIN, SAME)
DEFINE_ROWS(amin_i32, int32_t, int32_t, i, INT32_MAX, GD_MIN, SAME)
DEFINE_ROWS(amin_bool, uint8_t, uint8_t, i, 1, GD_MIN, SAME)
GD_DEFINE_JOIN(min_float, double, f, GD_MIN)
GD_DEFINE_JOIN(min_int, int64_t, i, GD_MIN)

static const gd_fold amin_folds[GD_DTYPES] = {
    [GD_FLOAT32] = FOLD(float, amin_f32, min_float, f32, f, INF_D),
    [GD_FLOAT64] = FOLD(double, amin_f64, min_float, f64, f, INF_D),
    [GD_INT64] = ROWS_FOLD(int64_t, amin_i64, min_int, i64, i, INT64_MAX),
    [GD_INT32] = ROWS_FOLD(int32_t, amin_i32, min_int, i32, i, INT32_MAX),
    [GD_BOOL] = ROWS_FOLD(uint8_t, amin_bool, min_int, bool, i, 1),
};
DEFINE_KERNEL(amin)

/* ---- any, all: what is not zero is true, NaN too --------------------------------------------------- */

#define DEFINE_TRUTH(name, T)                              \
    DEFINE_ROWS(any_##name, T, uint8_t, i, 0, OR, TRUTH) \
    DEFINE_ROWS(all_##name, T, uint8_t, i, 1, AND, TRUTH)

DEFINE_TRUTH(f32, float)
DEFINE_TRUTH(f64, double)
DEFINE_TRUTH(i64, int64_t)
DEFINE_TRUTH(i32, int32_t)
DEFINE_TRUTH(bool, uint8_t)
GD_DEFINE_JOIN(or, int64_t, i, OR)
GD_DEFINE_JOIN(and, int64_t, i, AND)

#define TRUTH_FOLDS(op, joiner, nothing)                           \
    static const gd_fold op##_folds[GD_DTYPES] = {                 \
        [GD_FLOAT32] = ROWS_FOLD(float, op##_f32, joiner, bool, i, nothing), \
        [GD_FLOAT64] = ROWS_FOLD(double, op##_f64, joiner, bool, i, nothing), \
        [GD_INT64] = ROWS_FOLD(int64_t, op##_i64, joiner, bool, i, nothing), \
        [GD_INT32] = ROWS_FOLD(int32_t, op##_i32, joiner, bool, i, nothing), \
        [GD_BOOL] = ROWS_FOLD(uint8_t, op##_bool, joiner, bool, i, nothing), \
    }

TRUTH_FOLDS(any, or, 0);
DEFINE_KERNEL(any)
TRUTH_FOLDS(all, and, 1);
DEFINE_KERNEL(all)
