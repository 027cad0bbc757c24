/* stress.c - random use of arenas, marks, scopes, exports and ops, checked against a plain model of what must
 * be alive and what it must hold; and ops called by number with random attributes, which may fail but not harm.
 * Meant for a library built with the address sanitizer. Usage: stress SEED ROUNDS. */
#include <stdbool.h>
#include <stdint.h>

#include "gradino.h"

#include "check.h"

enum { MOST = 400, ARENAS = 4 };

static uint64_t state;
static int64_t draw(int64_t n) { /* 0 .. n - 1: xorshift */
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (int64_t)(state % (uint64_t)n);
}

/* ---- The model ------------------------------------------------------------------------------------------ */

typedef struct tensor { gd_tensor t; int arena; int64_t n, number; float value; } tensor;
typedef struct mark { gd_tensor t; int arena; int64_t number; } mark;
typedef struct view { gd_export *e; const float *data; int64_t n; float value; } view;

static struct { gd_arena *a; } arenas[ARENAS];
static tensor tensors[MOST];
static mark marks[MOST];
static view views[MOST];
static int ntensors, nmarks, nviews;
static int64_t next_number;

/* What was made in an arena from `number` on is gone. */
static void forget(int arena, int64_t number) {
    for (int i = 0; i < ntensors; i++) {
        if (tensors[i].arena != arena || tensors[i].number < number) continue;
        CHECK_FAILS(gd_check(tensors[i].t), GD_ERR_STALE, "gone");
        tensors[i--] = tensors[--ntensors];
    }
    for (int i = 0; i < nmarks; i++) {
        if (marks[i].arena != arena || marks[i].number < number) continue;
        CHECK_FAILS(gd_arena_rewind(arenas[arena].a, marks[i].t), GD_ERR_ARENA, "");
        marks[i--] = marks[--nmarks];
    }
}

static void check_tensor(const tensor *t) {
    gd_tensor_info info;
    CHECK(gd_info(t->t, &info) >= 0 && info.numel == t->n);
    const float *x = info.data;
    for (int64_t i = 0; i < t->n; i++) CHECK(x[i * info.strides[0]] == t->value);
}

static void check_view(const view *v) {
    for (int64_t i = 0; i < v->n; i++) CHECK(v->data[i] == v->value);
}

static void close_view(int i) {
    check_view(&views[i]);
    gd_export_close(views[i].e);
    views[i] = views[--nviews];
}

static gd_arena *open_arena(void) {
    gd_arena *a = gd_arena_open((1 + draw(64)) << 16, draw(3) << 14, "stress");
    CHECK(a);
    return a;
}

static void make(int arena) {
    if (ntensors == MOST) return;
    int64_t scope = gd_scope_enter(arenas[arena].a), n = draw(8) ? draw(300) : draw(20000);
    float value = (float)draw(1000);
    gd_tensor t = gd_full(1, &n, GD_FLOAT32, value, 0);
    if (t && draw(2)) { /* through ops: workspace, views, temporaries */
        gd_tensor u = gd_add(t, t);
        if (u) t = u, value *= 2;
        u = draw(2) ? gd_slice(t, 0, draw(n + 1), n, 1 + draw(3)) : 0;
        if (u) t = u;
        int64_t shape[4];
        CHECK(gd_shape(t, shape) == 1);
        n = shape[0];
    }
    CHECK(t || gd_last_status() == GD_ERR_MEMORY);
    CHECK(gd_scope_exit(scope) >= 0);
    if (t) tensors[ntensors++] = (tensor){t, arena, n, next_number++, value};
}

/* One random event. */
static void event(void) {
    int arena = (int)draw(ARENAS);
    gd_arena *a = arenas[arena].a;
    switch (draw(14)) {
    default: make(arena); break;
    case 0:
        CHECK(gd_arena_reset(a) >= 0);
        forget(arena, 0);
        break;
    case 1: /* a mark */
        if (nmarks < MOST) {
            gd_tensor m = gd_arena_mark(a);
            CHECK(m || gd_last_status() == GD_ERR_MEMORY);
            if (m) marks[nmarks++] = (mark){m, arena, next_number++};
        }
        break;
    case 2: /* back to it: it stays good */
        if (nmarks) {
            mark m = marks[draw(nmarks)];
            CHECK(gd_arena_rewind(arenas[m.arena].a, m.t) >= 0);
            forget(m.arena, m.number + 1);
        }
        break;
    case 3: /* another arena in its place; views of the old one stay */
        if (draw(4)) break;
        CHECK(gd_arena_close(a) >= 0);
        arenas[arena].a = NULL;
        for (int i = 0; i < nmarks; i++)
            if (marks[i].arena == arena) marks[i--] = marks[--nmarks];
        forget(arena, 0);
        arenas[arena].a = open_arena();
        break;
    case 4:
    case 5: /* hand out a contiguous one */
        if (ntensors && nviews < MOST) {
            const tensor *t = &tensors[draw(ntensors)];
            gd_tensor_info info;
            CHECK(gd_info(t->t, &info) >= 0);
            if (!info.contiguous || !info.numel) break;
            views[nviews++] = (view){gd_export_open(t->t), info.data, t->n, t->value};
            CHECK(views[nviews - 1].e);
        }
        break;
    case 6:
        if (nviews) close_view((int)draw(nviews));
        break;
    case 7:
        while (nviews && !draw(30)) close_view((int)draw(nviews));
        break;
    case 8: { /* a step with a graph, whose memory comes back */
        int64_t scope = gd_scope_enter_step();
        gd_tensor x = gd_uniform(2, (int64_t[]){1 + draw(9), 1 + draw(9)}, GD_FLOAT32, -1, 1);
        CHECK(gd_set_requires_grad(x, 1) >= 0);
        gd_tensor y = gd_reduce(GD_OP_sum, gd_softmax(GD_OP_softmax, gd_tanh(gd_mul(x, x)), -1), NULL, 0, 0, 0);
        if (draw(3) == 0) gd_test_fail_allocation(1 + draw(30));
        gd_status status = gd_backward(y, 0, 0, 0, NULL);
        gd_test_fail_allocation(0);
        CHECK(status >= 0 || status == GD_ERR_MEMORY);
        CHECK(gd_scope_exit(scope) >= 0);
        break;
    }
    case 9: /* memory is refused */
        gd_test_fail_allocation(1 + draw(4));
        make(arena);
        gd_test_fail_allocation(0);
        break;
    }
}

static void arenas_and_views(int64_t rounds) {
    for (int i = 0; i < ARENAS; i++) arenas[i].a = open_arena();
    for (int64_t r = 0; r < rounds; r++) {
        event();
        if (ntensors) check_tensor(&tensors[draw(ntensors)]);
        if (nviews) check_view(&views[draw(nviews)]);
        if (r % 500 == 0) {
            for (int i = 0; i < ntensors; i++) check_tensor(&tensors[i]);
            for (int i = 0; i < nviews; i++) check_view(&views[i]);
        }
    }
    for (int i = 0; i < ARENAS; i++) CHECK(gd_arena_close(arenas[i].a) >= 0);
    while (nviews) close_view(0);
}

/* ---- Ops by number -------------------------------------------------------------------------------------- */

static gd_tensor any_tensor(void) {
    int64_t rank = draw(5), shape[4];
    for (int64_t d = 0; d < rank; d++) shape[d] = draw(6) ? draw(5) : 1;
    int dtype = draw(3) ? GD_FLOAT32 : (int)draw(GD_DTYPES);
    if (draw(5) == 0) return gd_randint(rank, shape, -3, 4);
    gd_tensor t = dtype <= GD_FLOAT64 ? gd_uniform(rank, shape, dtype, -2, 2) : gd_full(rank, shape, dtype, 1, draw(3));
    if (draw(4) == 0 && rank) t = gd_transpose(t, 0, -1);
    if (draw(6) == 0 && rank) t = gd_slice(t, draw(rank), draw(3), 5, 1 + draw(2));
    if (draw(4) == 0 && gd_dtype_of(t) <= GD_FLOAT64) gd_set_requires_grad(t, 1);
    return t;
}

static int64_t any_number(void) {
    static const int64_t odd[] = {-1, INT64_MAX, INT64_MIN, 1LL << 31, 1LL << 33, 15, 16, 99};
    return draw(6) ? draw(5) : odd[draw(sizeof odd / sizeof *odd)];
}

static void ops_by_number(int64_t rounds) {
    int64_t good = 0;
    gd_arena *small = gd_arena_open(4 << 20, 0, "small"); /* absurd sizes must not find room */
    for (int64_t r = 0; r < rounds; r++) {
        int64_t scope = gd_scope_enter(small);
        CHECK(scope > 0);
        int op = (int)draw(gd_op_count());
        gd_op_info info;
        CHECK(gd_op_describe(op, &info) == GD_OK);
        gd_tensor in[10] = {0};
        int64_t nin = info.nin < 0 ? draw(4) : info.nin;
        for (int64_t k = 0; k < nin; k++) in[k] = k && draw(3) ? in[draw(k)] : draw(12) ? any_tensor() : 0;
        gd_attr attr = {.i = {0}};
        for (int k = 0; k < 13; k++) attr.i[k] = draw(4) ? (k == 0 ? draw(4) : draw(3)) : any_number();
        for (int k = 0; k < 2; k++) attr.f[k] = (double)(draw(9) - 4) / 2;
        gd_tensor t = gd_call(op, in, nin, draw(9) ? &attr : NULL);
        CHECK(t || gd_last_status() < 0);
        if (t) {
            good++;
            gd_tensor_info out;
            CHECK(gd_info(t, &out) >= 0);
            if (out.requires_grad) {
                gd_tensor ones = gd_full(out.rank, out.shape, out.dtype, 1, 1);
                if (ones) gd_backward(t, ones, 0, (int)draw(2), NULL);
            }
        }
        gd_clear_error();
        CHECK(gd_scope_exit(scope) >= 0 && gd_arena_reset(small) >= 0);
    }
    printf("%lld of %lld random calls went well\n", (long long)good, (long long)rounds);
    CHECK(good * 10 > rounds);
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    state = 0x9e3779b97f4a7c15ULL * (uint64_t)(atoi(argv[1]) + 1);
    int64_t rounds = atoll(argv[2]);
    arenas_and_views(rounds);
    ops_by_number(rounds);
    puts("all is well");
    return 0;
}
