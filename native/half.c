/* half.c - ops on bfloat16 and float16. Where an op has no kernel for them (ops.def: HALF), its float32 kernel runs
 * between conversions: arithmetic in float32, one rounding at the end. Elementwise ops go tile by tile.
 * Matrix products of bfloat16 have a kernel of their own where the processor multiplies pairs of them (bf16.h). */
#include "half.h"

#include "bf16.h"
#include "cpu.h"
#include "engine.h"
#include "thread.h"

enum {
    TILE = 1024,       /* elements converted at a time: all operands of a tile lie in L1 */
    TASK_TILES = 16,   /* tiles of one parallel task */
    MOST_OPERANDS = 4, /* of an elementwise op: the output and up to three inputs */
    MOST_INPUTS = 16   /* of other ops that have no kernel for halves */
};

/* Instead of a kernel's own workspace: the op runs on bfloat16 pairs. Chosen once, with the workspace. */
static const int64_t IN_PAIRS = -1;
/* The same: the op's own kernel takes halves. */
static const int64_t AS_IT_IS = -2;

static const gd_attr NO_ATTR;

#if GD_X86
static gd_narrow_half *const narrow[] = {gd_narrow_half_portable, gd_narrow_half_avx2, gd_narrow_half_avx512};
static gd_widen_half *const widen[] = {gd_widen_half_portable, gd_widen_half_avx2, gd_widen_half_avx512};
#else
static gd_narrow_half *const narrow[] = {gd_narrow_half_portable};
static gd_widen_half *const widen[] = {gd_widen_half_portable};
#endif

/* Casts between views of one shape; a dimension of src that is 1 repeats. */
static void convert(const gd_view *dst, const gd_view *src) {
    const int64_t n = gd_numel(dst);
    if (n <= TILE && gd_is_contiguous(dst) && gd_is_contiguous(src) && gd_numel(src) == n) { /* without the walk, which takes as long */
        if (src->dtype == GD_FLOAT32 && gd_is_half(dst->dtype)) {
            narrow[gd_current_isa()](dst->data, src->data, n, dst->dtype);
            return;
        }
        if (dst->dtype == GD_FLOAT32 && gd_is_half(src->dtype)) {
            widen[gd_current_isa()](dst->data, src->data, n, src->dtype);
            return;
        }
    }
    const gd_view *in[] = {src};
    gd_view to = *dst, *out[] = {&to};
    gd_args args = {.in = in, .out = out, .attr = &NO_ATTR, .nin = 1, .nout = 1};
    gd_ops[GD_OP_cast].kernel[gd_current_isa()](&args);
}

static void make_contiguous(gd_view *v) {
    for (int64_t d = GD_DIMS - 1, step = 1; d >= 0; step *= v->shape[d--]) v->strides[d] = step;
}

/* ---- Elementwise: a tile of every input becomes float32 on the stack ---------------------------------------- */

typedef struct tiling {
    const gd_args *args;
    gd_kernel *kernel;
    int64_t size[GD_DIMS], count[GD_DIMS]; /* elements of a tile, and tiles, along each dimension */
    int64_t tiles;
} tiling;

/* The part of v that starts at `at` and has `size` elements; dimensions that repeat one element have size 1. */
static gd_view part_of(const gd_view *v, const int64_t *at, const int64_t *size) {
    gd_view part = *v;
    int64_t offset = 0;
    for (int d = 0; d < GD_DIMS; d++) {
        bool repeats = v->shape[d] == 1 || v->strides[d] == 0;
        if (!repeats) offset += at[d] * v->strides[d];
        part.shape[d] = repeats ? 1 : size[d];
    }
    part.data = (char *)v->data + offset * gd_dtype_bytes(v->dtype);
    return part;
}

static void run_tile(const tiling *t, int64_t tile) {
    _Alignas(GD_ALIGN) float buffer[MOST_OPERANDS][TILE];
    const gd_args *a = t->args;
    const gd_view *whole = a->out[0];
    int64_t at[GD_DIMS], size[GD_DIMS];
    for (int d = GD_DIMS - 1; d >= 0; d--) {
        at[d] = tile % t->count[d] * t->size[d];
        tile /= t->count[d];
        size[d] = whole->shape[d] - at[d] < t->size[d] ? whole->shape[d] - at[d] : t->size[d];
    }
    gd_view views[MOST_OPERANDS];
    const gd_view *in[MOST_OPERANDS];
    for (int k = 0; k < a->nin; k++) {
        gd_view part = part_of(a->in[k], at, size);
        views[k] = part;
        in[k] = &views[k];
        if (!gd_is_half(part.dtype)) continue;
        views[k].dtype = GD_FLOAT32;
        views[k].data = buffer[k];
        make_contiguous(&views[k]);
        convert(&views[k], &part);
    }
    gd_view part = *whole, result;
    int64_t offset = 0;
    for (int d = 0; d < GD_DIMS; d++) {
        offset += at[d] * whole->strides[d];
        part.shape[d] = size[d];
    }
    part.data = (char *)whole->data + offset * gd_dtype_bytes(whole->dtype);
    result = part;
    if (gd_is_half(part.dtype)) {
        result.dtype = GD_FLOAT32;
        result.data = buffer[MOST_OPERANDS - 1];
        make_contiguous(&result);
    }
    gd_view *out[] = {&result};
    gd_args args = {.in = in, .out = out, .attr = a->attr, .nin = a->nin, .nout = 1};
    t->kernel(&args);
    if (gd_is_half(part.dtype)) convert(&part, &result);
}

static void run_tiles(void *ctx, int64_t i, int worker) {
    const tiling *t = ctx;
    int64_t end = (i + 1) * TASK_TILES < t->tiles ? (i + 1) * TASK_TILES : t->tiles;
    (void)worker;
    for (int64_t tile = i * TASK_TILES; tile < end; tile++) run_tile(t, tile);
}

/* Light ops, which would take less time than the conversions by tiles, have loops that convert in registers. */
static bool in_registers(int op, const gd_args *a) {
#if GD_X86
    return gd_current_isa() == GD_ISA_AVX512 && (gd_unary_halves_avx512(op, a) || gd_binary_halves_avx512(op, a));
#else
    (void)op, (void)a;
    return false;
#endif
}

/* A tile is all of the inner dimensions, as far as there is room, and a part of the next one. */
static void elementwise(int op, const gd_args *a) {
    tiling t = {.args = a, .kernel = gd_ops[op].kernel[gd_current_isa()], .tiles = 1};
    int64_t room = TILE;
    if (gd_numel(a->out[0]) == 0 || in_registers(op, a)) return;
    for (int d = GD_DIMS - 1; d >= 0; d--) {
        int64_t n = a->out[0]->shape[d], pieces = n <= room ? 1 : (n + room - 1) / room;
        t.size[d] = (n + pieces - 1) / pieces;
        t.count[d] = (n + t.size[d] - 1) / t.size[d];
        t.tiles *= t.count[d];
        room = pieces > 1 ? 1 : room / t.size[d];
    }
    if (t.tiles < 2 * TASK_TILES)
        for (int64_t tile = 0; tile < t.tiles; tile++) run_tile(&t, tile);
    else gd_parallel((t.tiles + TASK_TILES - 1) / TASK_TILES, run_tiles, &t);
}

/* ---- Other ops: whole tensors become float32 in the workspace ------------------------------------------------- */

/* float64 where the kernel makes numbers of float64 attributes: those are rounded once, too. */
static int dtype_inside(int op) { return op == GD_OP_fill || op == GD_OP_arange || op == GD_OP_eye ? GD_FLOAT64 : GD_FLOAT32; }

static int64_t rounded(int64_t bytes) { return (bytes + GD_ALIGN - 1) & -(int64_t)GD_ALIGN; }

/* The view in the inner dtype, without memory; what repeats with stride 0 still does. */
static gd_view widened(const gd_view *v, int dtype, int64_t *bytes) {
    gd_view wide = *v;
    int64_t step = 1;
    wide.dtype = (uint8_t)dtype;
    for (int d = GD_DIMS - 1; d >= 0; d--) {
        bool repeats = v->strides[d] == 0 && v->shape[d] > 1;
        wide.strides[d] = repeats ? 0 : step;
        if (!repeats) step *= v->shape[d];
    }
    *bytes = rounded(step * gd_dtype_bytes(dtype));
    return wide;
}

/* What the kernel needs for the tensors that it will see: the shape rule is asked again. Whether it needs any may follow
 * from sizes and attributes, not from strides, which conversion changes. */
static int64_t workspace_inside(int op, const gd_shape_call *c) {
    gd_node wide[MOST_INPUTS], *in[MOST_INPUTS];
    gd_attr attr = *c->attr;
    gd_shape_call inside = *c;
    int64_t bytes;
    if (!c->workspace) return 0;
    for (int k = 0; k < c->nin; k++) {
        in[k] = c->in[k];
        if (!in[k] || !gd_is_half(in[k]->v.dtype)) continue;
        wide[k] = *in[k];
        wide[k].v = widened(&in[k]->v, dtype_inside(op), &bytes);
        in[k] = &wide[k];
    }
    inside.in = in;
    inside.attr = &attr;
    inside.workspace = 0;
    return gd_ops[op].shape(&inside) < 0 ? 0 : inside.workspace;
}

/* ---- Matrix products of bfloat16 pairs, where the processor has them ------------------------------------------ */

static bool multiplies_pairs(int op, int dtype) {
    return (op == GD_OP_matmul || op == GD_OP_linear) && dtype == GD_BFLOAT16 && gd_multiplies_bf16_pairs();
}

static int64_t pairs_workspace(int op, gd_shape_call *c) {
#if GD_X86
    gd_view *out[] = {&c->out[0]};
    const gd_args a = {.in = (const gd_view *const *)c->in, .out = out, .attr = c->attr, .nin = c->nin, .nout = 1};
    return (op == GD_OP_matmul ? gd_matmul_bytes_avx512bf16 : gd_linear_bytes_avx512bf16)(&a);
#else
    (void)op, (void)c;
    return 0;
#endif
}

static void multiply_pairs(int op, const gd_args *a) {
#if GD_X86
    (op == GD_OP_matmul ? gd_matmul_avx512bf16 : gd_linear_avx512bf16)(a);
#else
    (void)op, (void)a;
#endif
}

/* Whether AVX-512's kernel reduces halves, which it reads once, without a copy in float32. */
static bool reduces_halves(int op, const gd_shape_call *c) {
    const bool reduces = op == GD_OP_sum || op == GD_OP_mean || op == GD_OP_amax || op == GD_OP_amin;
    return GD_X86 && reduces && gd_current_isa() == GD_ISA_AVX512 && c->in[0]->v.dtype == c->out[0].dtype;
}

void gd_half_workspace(int op, gd_shape_call *c, int64_t *own) {
    if (gd_ops[op].flags & (GD_OP_HALF | GD_OP_EW | GD_OP_VIEW)) return;
    if (reduces_halves(op, c)) {
        *own = AS_IT_IS;
        return;
    }
    if (multiplies_pairs(op, c->out[0].dtype)) {
        c->workspace = pairs_workspace(op, c);
        *own = IN_PAIRS;
        return;
    }
    int64_t total = rounded(*own = workspace_inside(op, c)), bytes = 0;
    for (int k = 0; k < c->nin; k++) {
        if (!c->in[k] || !gd_is_half(c->in[k]->v.dtype)) continue;
        widened(&c->in[k]->v, dtype_inside(op), &bytes);
        total += bytes;
    }
    for (int k = 0; k < c->nout; k++)
        if (gd_is_half(c->out[k].dtype)) total += rounded(gd_numel(&c->out[k]) * gd_dtype_bytes(dtype_inside(op)));
    c->workspace = total;
}

/* v with each repeated dimension once, so that a conversion does it once. */
static gd_view without_repeats(const gd_view *v) {
    gd_view once = *v;
    for (int d = 0; d < GD_DIMS; d++)
        if (v->strides[d] == 0) once.shape[d] = v->shape[d] ? 1 : 0;
    return once;
}

/* Random numbers below `high` must stay below it. */
static void convert_down(const gd_view *dst, const gd_view *src) {
    const float *x = src->data;
    uint16_t *h = dst->data;
    convert(dst, src);
    for (int64_t i = 0, n = gd_numel(src); i < n; i++)
        h[i] = gd_half_below(h[i], dst->dtype == GD_BFLOAT16 ? gd_f32_of_bf16(h[i]) : gd_f32_of_f16(h[i]), x[i]);
}

static void whole(int op, const gd_args *a, int64_t own_workspace) {
    gd_view wide_in[MOST_INPUTS], wide_out[GD_MAX_OUT];
    const gd_view *in[MOST_INPUTS];
    gd_view *out[GD_MAX_OUT];
    char *at = (char *)a->workspace + rounded(own_workspace);
    int64_t bytes = 0;
    for (int k = 0; k < a->nin; k++) {
        in[k] = a->in[k];
        if (!in[k] || !gd_is_half(in[k]->dtype)) continue;
        wide_in[k] = widened(in[k], dtype_inside(op), &bytes);
        wide_in[k].data = at;
        gd_view to = without_repeats(&wide_in[k]), from = without_repeats(in[k]);
        convert(&to, &from);
        in[k] = &wide_in[k];
        at += bytes;
    }
    for (int k = 0; k < a->nout; k++) {
        out[k] = a->out[k];
        if (!gd_is_half(out[k]->dtype)) continue;
        wide_out[k] = *out[k];
        wide_out[k].dtype = (uint8_t)dtype_inside(op);
        wide_out[k].data = at;
        make_contiguous(&wide_out[k]);
        if (op == GD_OP_matmul && a->attr->i[0]) convert(&wide_out[k], out[k]); /* it adds to what is there */
        out[k] = &wide_out[k];
        at += rounded(gd_numel(out[k]) * gd_dtype_bytes(dtype_inside(op)));
    }
    gd_args args = {.in = in, .out = out, .attr = a->attr, .workspace = a->workspace, .nin = a->nin, .nout = a->nout};
    gd_ops[op].kernel[gd_current_isa()](&args);
    for (int k = 0; k < a->nout; k++)
        if (gd_is_half(a->out[k]->dtype)) (op == GD_OP_uniform ? convert_down : convert)(a->out[k], out[k]);
}

void gd_half_run(int op, const gd_args *a, int64_t own_workspace) {
    const gd_op_row *row = &gd_ops[op];
    if (row->flags & GD_OP_HALF || own_workspace == AS_IT_IS) row->kernel[gd_current_isa()](a);
    else if (row->flags & GD_OP_EW) elementwise(op, a);
    else if (own_workspace == IN_PAIRS) multiply_pairs(op, a);
    else whole(op, a, own_workspace);
}

/* ---- Optimizers: moments have the parameter's dtype, as PyTorch keeps them ------------------------------------- */

enum { MOST_STATES = 6 }; /* the gradient, the parameter, moments */

typedef struct optim_run { const gd_optim_args *args; gd_optim_op op; } optim_run;

/* TILE elements of all states as float32, updated, and rounded. */
static void optim_tile(void *ctx, int64_t i, int worker) {
    _Alignas(GD_ALIGN) float buffer[MOST_STATES][TILE];
    const optim_run *run = ctx;
    gd_optim_args a = *run->args;
    void *grad = (void *)(uintptr_t)a.grad, **state[] = {&grad, &a.param, &a.momentum, &a.exp_avg, &a.exp_avg_sq, &a.max_exp_avg_sq};
    const int64_t from = i * TILE, n = a.n - from < TILE ? a.n - from : TILE;
    gd_view wide = {.shape = {1, 1, 1, n}, .strides = {n, n, n, 1}, .dtype = GD_FLOAT32}, half[MOST_STATES];
    (void)worker;
    for (int k = 0; k < MOST_STATES; k++) {
        half[k] = wide;
        half[k].dtype = a.dtype;
        half[k].data = *state[k] ? (uint16_t *)*state[k] + from : NULL;
        if (!half[k].data) continue;
        wide.data = *state[k] = buffer[k];
        convert(&wide, &half[k]);
    }
    a.grad = grad;
    a.n = n;
    a.dtype = GD_FLOAT32;
    gd_optim_kernel_now(run->op)(&a);
    for (int k = 1; k < MOST_STATES; k++) {
        if (!half[k].data) continue;
        wide.data = buffer[k];
        convert(&half[k], &wide);
    }
}

void gd_half_optim(gd_optim_op op, const gd_optim_args *a) {
    optim_run run = {a, op};
    int64_t tiles = (a->n + TILE - 1) / TILE;
    if (tiles < 2 * TASK_TILES)
        for (int64_t i = 0; i < tiles; i++) optim_tile(&run, i, 0);
    else gd_parallel(tiles, optim_tile, &run);
}
