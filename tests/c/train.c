/* train.c - trains a small MLP and an LSTM with every optimizer, in float32 and float64, and prints what the
 * parameters become: on another machine the numbers must be nearly these. Usage: train THREADS. */
#include <math.h>

#include "check.h"
#include "gradino.h"

enum { BATCH = 37, INPUT = 19, HIDDEN = 40, CLASSES = 5, LENGTH = 5, STEPS = 12, MOST = 6 };

typedef struct model {
    gd_tensor p[MOST];
    int count, dtype;
} model;

/* Numbers between -scale and scale from a formula, so that no generator has a part in it. */
static gd_tensor numbers(int64_t rank, const int64_t *shape, int dtype, double scale) {
    static double values[BATCH * LENGTH * INPUT + 4 * HIDDEN * HIDDEN];
    static uint32_t state = 1;
    int64_t count = 1;
    for (int64_t d = 0; d < rank; d++) count *= shape[d];
    CHECK(count <= (int64_t)(sizeof values / sizeof *values));
    for (int64_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        values[i] = scale * ((double)(state >> 8) / (1 << 23) - 1);
    }
    gd_tensor t = gd_cast(gd_from_data(rank, shape, GD_FLOAT64, values), dtype);
    CHECK(t);
    return t;
}

static void add(model *m, int64_t rank, int64_t rows, int64_t columns) {
    int64_t shape[] = {rows, columns};
    m->p[m->count] = gd_parameter(numbers(rank, shape, m->dtype, 0.2), 1);
    CHECK(m->p[m->count++]);
}

static gd_tensor mlp(const model *m, gd_tensor x) {
    return gd_linear(gd_tanh(gd_linear(x, m->p[0], m->p[1])), m->p[2], m->p[3]);
}

static gd_tensor lstm(const model *m, gd_tensor x) {
    gd_tensor y = gd_lstm(x, 0, 0, m->p[0], m->p[1], m->p[2], m->p[3], 0, 0, 0);
    return gd_linear(gd_select(y, 0, LENGTH - 1), m->p[4], m->p[5]);
}

static double sum_of_squares(const model *m) {
    double total = 0;
    for (int i = 0; i < m->count; i++) {
        gd_tensor sum = gd_reduce(GD_OP_sum, gd_cast(gd_square(m->p[i]), GD_FLOAT64), NULL, 0, 0, 0);
        total += gd_item_float(sum);
        CHECK(sum);
    }
    return total;
}

static void train(const char *name, int recurrent, int dtype, gd_optimizer_kind kind, gd_hyper settings) {
    int64_t outer = gd_scope_enter_step();
    model m = {.dtype = dtype};
    if (recurrent) {
        add(&m, 2, 4 * HIDDEN, INPUT), add(&m, 2, 4 * HIDDEN, HIDDEN), add(&m, 1, 4 * HIDDEN, 0), add(&m, 1, 4 * HIDDEN, 0);
        add(&m, 2, CLASSES, HIDDEN), add(&m, 1, CLASSES, 0);
    } else {
        add(&m, 2, HIDDEN, INPUT), add(&m, 1, HIDDEN, 0), add(&m, 2, CLASSES, HIDDEN), add(&m, 1, CLASSES, 0);
    }
    int64_t labels[BATCH], batch = BATCH, shape[] = {LENGTH, BATCH, INPUT};
    for (int i = 0; i < BATCH; i++) labels[i] = i * i % CLASSES;
    gd_tensor x = numbers(recurrent ? 3 : 2, shape + !recurrent, dtype, 1), y = gd_from_data(1, &batch, GD_INT64, labels);
    gd_optimizer *optimizer = gd_optimizer_open(kind);
    CHECK(optimizer && gd_optimizer_add_group(optimizer, m.p, m.count) >= 0 && gd_optimizer_set_hyper(optimizer, 0, &settings) >= 0);
    printf("%s %s %s:", name, recurrent ? "lstm" : "mlp", dtype == GD_FLOAT32 ? "float32" : "float64");
    for (int step = 0; step < STEPS; step++) {
        int64_t scope = gd_scope_enter_step();
        gd_tensor loss = gd_cross_entropy(recurrent ? lstm(&m, x) : mlp(&m, x), y, 0, -100, 1, 0.1);
        CHECK(gd_backward(loss, 0, 0, 0, NULL) >= 0 && gd_optimizer_step(optimizer) >= 0 && gd_optimizer_zero_grad(optimizer) >= 0);
        if (step % 4 == 3) printf(" %.9g %.9g", gd_item_float(loss), sum_of_squares(&m));
        CHECK(gd_scope_exit(scope) >= 0);
    }
    printf("\n");
    gd_optimizer_close(optimizer);
    for (int i = 0; i < m.count; i++) CHECK(gd_parameter_free(m.p[i]) >= 0);
    CHECK(gd_scope_exit(outer) >= 0);
}

int main(int argc, char **argv) {
    CHECK(argc == 2 && gd_set_num_threads(atoi(argv[1])) >= 0);
    const gd_hyper adam = {.lr = 0.01, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.01}, sgd = {.lr = 0.1, .momentum = 0.9};
    gd_hyper amsgrad = adam, nesterov = sgd;
    amsgrad.amsgrad = nesterov.nesterov = 1;
    for (int recurrent = 0; recurrent < 2; recurrent++) {
        for (int dtype = GD_FLOAT32; dtype <= GD_FLOAT64; dtype++) {
            train("sgd", recurrent, dtype, GD_SGD, sgd);
            train("nesterov", recurrent, dtype, GD_SGD, nesterov);
            train("adam", recurrent, dtype, GD_ADAM, adam);
            train("amsgrad", recurrent, dtype, GD_ADAM, amsgrad);
            train("adamw", recurrent, dtype, GD_ADAMW, adam);
        }
    }
    return 0;
}
