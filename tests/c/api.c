/* api.c - gradino.h as a C program uses it: errors as values, nested calls, arenas, ops by number, gradients,
 * optimizers, exports. Linked with the installed library by test_c_api.py. */
#include <math.h>
#include <stdbool.h>

#include "gradino.h"

#include "check.h"

static gd_tensor vector(int64_t n, const float *values) { return gd_from_data(1, &n, GD_FLOAT32, values); }
static gd_tensor number(float x) { return gd_from_data(0, NULL, GD_FLOAT32, &x); }

static void check_values(gd_tensor t, int64_t n, const float *want) {
    float got[64];
    CHECK(gd_copy_out(t, got, n * (int64_t)sizeof *got) >= 0);
    for (int64_t i = 0; i < n; i++)
        if (fabsf(got[i] - want[i]) > 1e-6f) {
            fprintf(stderr, "element %lld is %g, must be %g\n", (long long)i, (double)got[i], (double)want[i]);
            exit(1);
        }
}
#define VALUES(t, ...) check_values(t, (int64_t)(sizeof((float[]){__VA_ARGS__}) / sizeof(float)), (float[]){__VA_ARGS__})

static void errors_are_values(void) {
    CHECK(gd_last_status() == GD_OK && gd_last_error() != NULL);
    int64_t two = 2, three = 3, negative = -1;
    gd_tensor a = gd_full(1, &two, GD_FLOAT32, 1, 0), b = gd_full(1, &three, GD_FLOAT32, 1, 0);
    CHECK(a && b);
    CHECK_FAILS(gd_add(a, b), GD_ERR_SHAPE, "add: shapes (2,) and (3,)");
    CHECK_FAILS(gd_empty(1, &negative, GD_FLOAT32), GD_ERR_SHAPE, "negative");
    CHECK_FAILS(gd_empty(5, (int64_t[]){1, 1, 1, 1, 1}, GD_FLOAT32), GD_ERR_SHAPE, "four dimensions");
    CHECK_FAILS(gd_empty(1, &two, 99), GD_ERR_DTYPE, "99 is no dtype");
    CHECK_FAILS(gd_select(a, 0, 2), GD_ERR_INDEX, "2 is out of range");
    CHECK_FAILS(gd_op_find("nonsense"), GD_ERR_VALUE, "no op is named 'nonsense'");
    CHECK_FAILS(gd_call(-1, NULL, 0, NULL), GD_ERR_VALUE, "op -1");
    CHECK_FAILS(gd_call(GD_OP_add, &a, 1, NULL), GD_ERR_VALUE, "takes 2 inputs");
    CHECK_FAILS(gd_call(GD_OP_cat, NULL, -1, NULL), GD_ERR_VALUE, "inputs");
    CHECK_FAILS(gd_arena_open(-5, 0, "x"), GD_ERR_VALUE, "-5");
    CHECK_FAILS(gd_output(a, 1), GD_ERR_VALUE, "output");
    CHECK_FAILS(gd_set_num_threads(0), GD_ERR_VALUE, "from 1 to");
    CHECK_FAILS(gd_set_isa("sse9"), GD_ERR_VALUE, "sse9");
    CHECK(gd_get_grad(a) == 0 && gd_last_status() == GD_OK); /* no gradient is no error */
    CHECK(isnan(gd_item_float(b)) && gd_last_status() == GD_ERR_SHAPE);
    CHECK(gd_item_float(gd_slice(b, 0, 0, 1, 1)) == 1 && gd_last_status() == GD_OK); /* cleared first */
    for (int s = GD_OK; s >= GD_ERR_ZERO_DIVISION; s--) CHECK(strlen(gd_status_name(s)) > 1);
    CHECK(gd_add(a, a) != 0); /* the library goes on after errors */
}

/* A failed call returns 0, and 0 as an input fails with the first message. */
static void calls_nest(void) {
    int64_t two = 2, three = 3;
    gd_tensor a = gd_full(1, &two, GD_FLOAT32, 1, 0), b = gd_full(1, &three, GD_FLOAT32, 1, 0), out[3];
    gd_clear_error();
    gd_tensor t = gd_exp(gd_mul(gd_softmax(GD_OP_softmax, gd_add(a, b), 0), a));
    CHECK(t == 0 && gd_last_status() == GD_ERR_SHAPE && strstr(gd_last_error(), "add: shapes (2,) and (3,)"));
    t = gd_add(gd_reduce(GD_OP_sum, gd_sub(a, b), NULL, 0, 0, 0), gd_matmul(a, gd_sub(b, a))); /* the first of two */
    CHECK(t == 0 && strstr(gd_last_error(), "shapes"));
    gd_clear_error();
    CHECK(gd_exp(0) == 0 && gd_last_status() == GD_ERR && strstr(gd_last_error(), "exp: an input is no tensor"));

    gd_tensor (*const makers[])(gd_tensor) = {gd_contiguous, gd_detach, gd_nonzero, gd_relu, gd_isnan};
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++) CHECK_FAILS(makers[i](0), GD_ERR, "no tensor");
    gd_tensor nothing[2] = {0, 0};
    CHECK_FAILS(gd_cat(nothing, 2, 0), GD_ERR, "no tensor");
    CHECK_FAILS(gd_stack(nothing, 2, 0), GD_ERR, "no tensor");
    CHECK_FAILS(gd_linear(0, a, 0), GD_ERR, "no tensor");
    CHECK_FAILS(gd_linear(a, 0, 0), GD_ERR, "no tensor");
    CHECK_FAILS(gd_cross_entropy(a, 0, 0, 0, 1, 0), GD_ERR, "no tensor");
    CHECK_FAILS(gd_lstm(a, 0, 0, 0, 0, 0, 0, 0, 0, 0), GD_ERR, "no tensor");
    CHECK_FAILS(gd_where(0, a, a), GD_ERR, "no tensor");
    CHECK_FAILS(gd_where(GD_ABSENT, a, a), GD_ERR, "no tensor");

    float square[] = {1, 2, 3, 4}; /* where a tensor may be left out, the result of a failed call is not left out */
    gd_tensor m = gd_from_data(2, (int64_t[]){2, 2}, GD_FLOAT32, square), label = gd_from_data(1, (int64_t[]){2}, GD_INT64, (int64_t[]){0, 1});
    CHECK_FAILS(gd_linear(m, m, gd_add(a, b)), GD_ERR_SHAPE, "add: shapes");
    CHECK_FAILS(gd_cross_entropy(m, label, gd_add(a, b), -100, 1, 0), GD_ERR_SHAPE, "add: shapes");
    CHECK_FAILS(gd_layer_norm(m, 1, (int64_t[]){2}, gd_add(a, b), 0, 1e-5), GD_ERR_SHAPE, "add: shapes");
    CHECK_FAILS(gd_rms_norm(m, 1, (int64_t[]){2}, gd_add(a, b), 1e-5), GD_ERR_SHAPE, "add: shapes");
    gd_tensor with_failed[] = {m, m, gd_add(a, b)};
    CHECK(gd_call(GD_OP_linear, with_failed, 3, NULL) == 0 && gd_last_status() == GD_ERR_SHAPE);
    gd_clear_error();
    CHECK(gd_add(a, b) == 0 && gd_linear(m, m, GD_ABSENT) && gd_linear(m, m, 0) == 0);
    gd_clear_error();
    CHECK(gd_linear(m, m, 0) && gd_linear(m, m, GD_ABSENT));
    gd_tensor leaf = gd_full(1, (int64_t[]){2}, GD_FLOAT32, 1, 0);
    CHECK(gd_set_requires_grad(leaf, 1) == GD_OK);
    CHECK_FAILS(gd_backward(gd_reduce(GD_OP_sum, leaf, NULL, 0, 0, 0), gd_add(a, b), 0, 0, NULL), GD_ERR_SHAPE, "add: shapes");
    CHECK(gd_backward(gd_reduce(GD_OP_sum, leaf, NULL, 0, 0, 0), GD_ABSENT, 0, 0, NULL) >= 0 && gd_get_grad(leaf));
    CHECK_FAILS(gd_set_grad(leaf, gd_add(a, b)), GD_ERR_SHAPE, "add: shapes");
    CHECK(gd_get_grad(leaf) && gd_set_grad(leaf, GD_ABSENT) == GD_OK && !gd_get_grad(leaf));
    CHECK_FAILS(gd_clamp(0, 0, 1), GD_ERR, "no tensor");
    CHECK_FAILS(gd_keep(0, 0), GD_ERR, "no tensor");
    CHECK_FAILS(gd_parameter(0, 1), GD_ERR, "no tensor");
    CHECK_FAILS(gd_export_open(0), GD_ERR, "no tensor");
    CHECK_FAILS(gd_backward(0, 0, 0, 0, NULL), GD_ERR, "no tensor");
    CHECK_FAILS(gd_check(0), GD_ERR, "no tensor");
    CHECK_FAILS(gd_grad_of(nothing, NULL, 1, &a, 1, 0, 0, out), GD_ERR, "");
    for (int op = 0; op < gd_op_count(); op++) { /* every op that takes inputs */
        gd_op_info info;
        gd_tensor inputs[10] = {0};
        CHECK(gd_op_describe(op, &info) == GD_OK);
        if (info.nin != 0) CHECK_FAILS(gd_call(op, inputs, info.nin < 0 ? 2 : info.nin, NULL), GD_ERR, "no tensor");
    }
}

static void arenas(void) {
    gd_arena *a = gd_arena_open(1 << 20, 0, "mine");
    CHECK(a && strcmp(gd_arena_name(a), "mine") == 0 && gd_arena_active() == gd_arena_permanent());
    int64_t scope = gd_scope_enter(a), n = 100, large = 1 << 18;
    CHECK(scope > 0 && gd_arena_active() == a && gd_scope_arena(scope) == a);
    gd_tensor x = gd_full(1, &n, GD_FLOAT32, 3, 0);
    CHECK(gd_arena_of(x) == a && gd_arena_get_stats(a).used == 448);
    CHECK_FAILS(gd_empty(1, &large, GD_FLOAT32), GD_ERR_MEMORY, "1048576 bytes requested, 448 used");
    CHECK(gd_arena_get_stats(a).used == 448);

    gd_tensor mark = gd_arena_mark(a), y = gd_exp(x);
    CHECK(mark && y && gd_arena_rewind(a, mark) == GD_OK && gd_check(x) >= 0);
    CHECK_FAILS(gd_check(y), GD_ERR_STALE, "'mine' was reset");
    CHECK_FAILS(gd_arena_rewind(a, x), GD_ERR_ARENA, "not a mark");

    int64_t step = gd_scope_enter_step();
    CHECK(step > 0 && gd_arena_active() != a);
    gd_tensor z = gd_add(x, x), kept = gd_keep(z, 0);
    CHECK(gd_arena_of(kept) == a);
    CHECK(gd_scope_exit(step) == GD_OK && gd_scope_exit(step) == GD_OK && !gd_scope_is_open(step)); /* twice is once */
    CHECK(isnan(gd_item_float(z)) && gd_last_status() == GD_ERR_STALE && strstr(gd_last_error(), "'step' was reset"));
    CHECK(gd_item_float(gd_select(kept, 0, 7)) == 6);
    CHECK_FAILS(gd_arena_close(a), GD_ERR_ARENA, "active");
    CHECK((step = gd_scope_enter_step()) > 0);
    CHECK_FAILS(gd_scope_exit(scope), GD_ERR_ARENA, "inner scope");
    CHECK(gd_scope_is_open(scope) && gd_arena_active() != a && gd_scope_exit(step) == GD_OK); /* now the outer one ends, too */
    CHECK(!gd_scope_is_open(scope) && gd_scope_exit(scope) == GD_OK && gd_arena_active() == gd_arena_permanent());
    CHECK((scope = gd_scope_enter(a)) > 0 && (step = gd_scope_enter_step()) > 0);
    gd_scope_abandon(scope);
    CHECK(gd_scope_is_open(scope) && gd_scope_exit(step) == GD_OK && gd_arena_active() == gd_arena_permanent());
    gd_scope_abandon(scope); /* nothing to do */

    gd_arena *list[4];
    int64_t open = gd_arena_list(list, 4);
    CHECK(open >= 2 && open <= 4 && list[0] == gd_arena_permanent());
    CHECK(gd_arena_reset(a) == GD_OK && gd_arena_get_stats(a).resets == 1);
    CHECK(gd_arena_close(a) == GD_OK);
    CHECK_FAILS(gd_check(x), GD_ERR_STALE, "'mine' was closed");
    CHECK_FAILS(gd_arena_reset(a), GD_ERR_ARENA, "closed");
    CHECK_FAILS(gd_arena_close(gd_arena_permanent()), GD_ERR_ARENA, "permanent");
    CHECK(gd_arena_get_stats(NULL).used == 0);
}

static void ops_by_number_and_by_name(void) {
    float v[] = {1, -2, 3};
    gd_tensor x = vector(3, v), two[] = {x, x};
    CHECK(gd_op_find("add") == GD_OP_add && gd_op_count() == GD_OPS && strcmp(gd_op_name(GD_OP_exp), "exp") == 0);
    VALUES(gd_call(GD_OP_add, two, 2, NULL), 2, -4, 6);
    VALUES(gd_binary(GD_OP_mul, x, x), 1, 4, 9);
    VALUES(gd_mul(x, gd_abs(x)), 1, -4, 9);
    VALUES(gd_binary_scalar(GD_OP_sub, x, 1, 1, GD_INT64, 1), 0, 3, -2);
    VALUES(gd_clamp(x, -1, 2), 1, -1, 2);
    VALUES(gd_where(gd_gt(x, number(0)), x, number(9)), 1, 9, 3);
    gd_tensor largest = gd_reduce(GD_OP_max_dim, x, (int64_t[]){0}, 1, 0, 0);
    CHECK(gd_item_float(largest) == 3 && gd_item_int(gd_output(largest, 1)) == 2);
    gd_op_info info;
    CHECK(gd_op_describe(GD_OP_linear, &info) == GD_OK && info.nin == 3 && info.differentiable && info.has_kernel);
    gd_tensor ints = gd_arange(0, 0, 0, 1, 4, GD_INT64);
    CHECK(gd_dtype_of(gd_add(ints, x)) < 0 || gd_last_status() != GD_OK);
    gd_clear_error();
    CHECK(gd_dtype_of(gd_div(ints, ints)) < 0 || gd_dtype_of(gd_div(ints, ints)) == GD_FLOAT32); /* 0 / 0 is NaN */
    CHECK_FAILS(gd_floor_divide(ints, ints), GD_ERR_ZERO_DIVISION, "zero");

    /* Attributes that lead out of a tensor are refused, whoever makes them up. */
    CHECK_FAILS(gd_call(GD_OP_softmax, &x, 1, &(gd_attr){.i = {77}}), GD_ERR_VALUE, "dimension");
    CHECK_FAILS(gd_call(GD_OP_sum, &x, 1, &(gd_attr){.i = {1 << 9}}), GD_ERR_VALUE, "mask");
    CHECK_FAILS(gd_call(GD_OP_max_dim, &x, 1, &(gd_attr){.i = {15}}), GD_ERR_VALUE, "one dimension");
    CHECK_FAILS(gd_call(GD_OP_cat, two, 2, &(gd_attr){.i = {-1}}), GD_ERR_VALUE, "dimension");
    CHECK_FAILS(gd_call(GD_OP_slice, &x, 1, &(gd_attr){.i = {0, 0, 0, 2, 1, 1, 1, INT64_MAX, 1, 1, 1, 3}}), GD_ERR_INDEX, "slice");
    CHECK_FAILS(gd_call(GD_OP_permute, &x, 1, &(gd_attr){.i = {0, 1, 2, 3, 9}}), GD_ERR_SHAPE, "permute");
    CHECK_FAILS(gd_call(GD_OP_fill, NULL, 0, &(gd_attr){.i = {1, 1, 1, 1, 1, 44}}), GD_ERR_DTYPE, "44");
}

static void gradients(void) {
    float v[] = {1, 2, 3};
    gd_tensor x = vector(3, v);
    CHECK(gd_set_requires_grad(x, 1) == GD_OK);
    gd_tensor loss = gd_reduce(GD_OP_sum, gd_mul(gd_square(x), x), NULL, 0, 0, 0);
    CHECK(gd_backward(loss, 0, 1, 0, NULL) >= 0);
    VALUES(gd_get_grad(x), 3, 12, 27);
    CHECK(gd_backward(loss, 0, 0, 0, NULL) >= 0);
    VALUES(gd_get_grad(x), 6, 24, 54);
    CHECK_FAILS(gd_backward(loss, 0, 0, 0, NULL), GD_ERR, "already used");
    CHECK_FAILS(gd_backward(x, 0, 0, 0, NULL), GD_ERR_SHAPE, "exactly one element");
    CHECK(gd_zero_grad(&x, 1) == GD_OK && gd_get_grad(x) == 0);

    gd_tensor y = gd_mul(gd_square(x), x), ones = gd_full(1, (int64_t[]){3}, GD_FLOAT32, 1, 0), first, second;
    CHECK(gd_grad_of(&y, &ones, 1, &x, 1, 0, 1, &first) == GD_OK);
    VALUES(first, 3, 12, 27);
    CHECK(gd_grad_of(&first, &ones, 1, &x, 1, 0, 0, &second) == GD_OK);
    VALUES(second, 6, 12, 18);

    int64_t mode = gd_grad_mode_enter(0);
    CHECK(!gd_grad_enabled());
    gd_tensor_info info;
    CHECK(gd_info(gd_exp(x), &info) >= 0 && !info.requires_grad && info.is_leaf);
    gd_grad_mode_exit(mode, 0);
    gd_grad_mode_exit(mode, 0);
    CHECK(gd_grad_enabled() && gd_info(gd_exp(x), &info) >= 0 && info.requires_grad && info.op == GD_OP_exp);
    CHECK_FAILS(gd_fill_in(x, 1, 1), GD_ERR, "in-place");
    CHECK_FAILS(gd_set_requires_grad(gd_arange(0, 0, 0, 1, 3, GD_INT64), 1), GD_ERR_DTYPE, "floating point");
}

static void optimizers(void) {
    float v[] = {1, -1};
    gd_tensor p = gd_parameter(vector(2, v), 1);
    gd_optimizer *o = gd_optimizer_open(GD_SGD);
    CHECK(p && o && gd_optimizer_add_group(o, &p, 1) == GD_OK);
    CHECK(gd_optimizer_set_hyper(o, 0, &(gd_hyper){.lr = 0.1, .momentum = 0.5}) == GD_OK);
    CHECK_FAILS(gd_optimizer_add_group(o, &p, 1), GD_ERR_VALUE, "two groups");
    CHECK_FAILS(gd_optimizer_set_hyper(o, 3, &(gd_hyper){0}), GD_ERR_VALUE, "no group 3");
    CHECK(gd_optimizer_step(o) >= 0 && gd_optimizer_get_step(o, p) == 0); /* no gradient, no step */
    for (int k = 0; k < 2; k++) {
        int64_t scope = gd_scope_enter_step();
        CHECK(gd_backward(gd_reduce(GD_OP_sum, gd_square(p), NULL, 0, 0, 0), 0, 0, 0, NULL) >= 0);
        CHECK(gd_optimizer_step(o) >= 0 && gd_optimizer_zero_grad(o) >= 0 && gd_scope_exit(scope) >= 0);
    }
    VALUES(p, 0.54f, -0.54f); /* 1 - .1 * 2 = .8; then - .1 * (.5 * 2 + 1.6) */
    VALUES(gd_parameter_state(p, 2), 2.6f, -2.6f);
    CHECK(gd_optimizer_get_step(o, p) == 2 && gd_parameter_state(p, 3) == 0 && gd_last_status() == GD_OK);
    CHECK(gd_optimizer_set_step(o, p, 7) == GD_OK && gd_optimizer_get_step(o, p) == 7);

    gd_tensor loss = gd_reduce(GD_OP_sum, p, NULL, 0, 0, 0);
    CHECK(gd_backward(loss, 0, 0, 0, o) >= 0 && gd_get_grad(p) == 0 && gd_optimizer_get_step(o, p) == 8);
    CHECK(gd_parameter_free(p) == GD_OK);
    CHECK_FAILS(gd_optimizer_step(o), GD_ERR_STALE, "freed");
    gd_optimizer_close(o);
    gd_optimizer_close(NULL);
    CHECK_FAILS(gd_optimizer_open((gd_optimizer_kind)99), GD_ERR_VALUE, "kind");
    CHECK_FAILS(gd_parameter_free(p), GD_ERR_STALE, "freed");
}

/* Memory that is handed out stays as it is, whatever happens to tensor and arena. */
static void exports(void) {
    gd_arena *a = gd_arena_open(1 << 20, 0, "short-lived");
    int64_t scope = gd_scope_enter(a), n = 1000;
    gd_tensor t = gd_full(1, &n, GD_FLOAT32, 5, 0);
    gd_tensor_info info;
    CHECK(gd_info(gd_slice(t, 0, 100, 200, 1), &info) >= 0 && info.base == t && info.numel == 100);
    gd_export *e = gd_export_open(gd_slice(t, 0, 100, 200, 1));
    const float *data = info.data;
    CHECK(e);
    for (int k = 0; k < 3; k++) {
        CHECK(gd_scope_exit(scope) == GD_OK && gd_arena_reset(a) == GD_OK && (scope = gd_scope_enter(a)) > 0);
        for (int j = 0; j < 20; j++) CHECK(gd_full(1, &n, GD_FLOAT32, -1, 0));
        for (int j = 0; j < 100; j++) CHECK(data[j] == 5);
    }
    CHECK(gd_scope_exit(scope) == GD_OK && gd_arena_close(a) == GD_OK);
    for (int j = 0; j < 100; j++) CHECK(data[j] == 5);
    gd_export_close(e);
    gd_export_close(NULL);

    float outside[6] = {1, 2, 3, 4, 5, 6};
    gd_tensor borrowed = gd_from_external(2, (int64_t[]){3, 2}, (int64_t[]){1, 3}, GD_FLOAT32, outside); /* transposed */
    VALUES(borrowed, 1, 4, 2, 5, 3, 6);
    CHECK(gd_fill_in(gd_select(borrowed, 0, 1), 0, 0) >= 0 && outside[1] == 0 && outside[4] == 0);
    CHECK(gd_info(borrowed, &info) >= 0 && info.is_external && info.data == outside && !info.contiguous);
}

static void allocation_failure(void) {
    int64_t n = 10;
    gd_tensor x = gd_full(1, &n, GD_FLOAT32, 1, 0);
    gd_test_fail_allocation(1);
    CHECK_FAILS(gd_exp(x), GD_ERR_MEMORY, "test");
    CHECK(gd_exp(x) != 0);
    gd_test_fail_allocation(0);
}

static void machine(void) {
    CHECK(gd_get_num_threads() >= 1 && gd_default_num_threads() >= 1);
    CHECK(strlen(gd_version()) > 2 && strstr(gd_supported_isas(), gd_get_isa()));
    CHECK(gd_set_isa("portable") == GD_OK && strcmp(gd_get_isa(), "portable") == 0 && gd_set_isa(NULL) == GD_OK);
    uint64_t state[2];
    int64_t three = 3;
    gd_manual_seed(5);
    gd_tensor a = gd_normal(1, &three, GD_FLOAT32, 0, 1);
    gd_get_rng_state(state);
    CHECK(state[0] == 5 && state[1] > 0);
    gd_manual_seed(5);
    gd_tensor b = gd_normal(1, &three, GD_FLOAT32, 0, 1), same = gd_reduce(GD_OP_all, gd_eq(a, b), NULL, 0, 0, 0);
    CHECK(gd_item_int(same) == 1);
}

int main(void) {
    CHECK(gd_init_status() >= 0);
    errors_are_values();
    calls_nest();
    arenas();
    ops_by_number_and_by_name();
    gradients();
    optimizers();
    exports();
    allocation_failure();
    machine();
    puts("all is well");
    return 0;
}
