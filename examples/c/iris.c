/* iris.c - the whole of gradino from C: tell three kinds of iris apart by four lengths, with a 4-16-3 network.
 *
 *     cc iris.c $(python -m gradino config --cflags --libs) -o iris && ./iris ../iris.csv
 *
 * It does what examples/iris.py does, and needs nothing but gradino.h and libgradino. Three things to know:
 *
 *   Tensors are handles. A gd_tensor is a number: copy it freely, there is nothing to free. A function that
 *   makes a tensor returns 0 when it fails; given a 0, it fails again and keeps the first message. So calls
 *   may be nested, and one look at the end of a line of calls is enough.
 *
 *   Memory is arenas. What is made while an arena is active lives in it, and dies with it as a whole. Here are
 *   two: the permanent one, active from the start, holds the table and the network; the step arena holds what
 *   one step makes (activations, graph, gradients on their way) and is emptied at the end of that step.
 *   Touching a tensor whose arena was emptied is an error with a message, never a read of other memory.
 *
 *   Parameters are permanent wherever they are made, and so are their gradients and an optimizer's moments. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gradino.h"

enum { FLOWERS = 150, LENGTHS = 4, KINDS = 3, HIDDEN = 16, TRAINING = 120, BATCH = 16, EPOCHS = 40, PARAMETERS = 4 };

/* ---- Errors: one look, one message --------------------------------------------------------------------- */

/* Ends the program if a call went wrong. Statuses and counts are negative on failure. */
static void need(int64_t status) {
    if (status >= 0) return;
    fprintf(stderr, "iris: %s\n", gd_last_error());
    exit(1);
}

/* The same for tensors, whose failure is 0. Passes the tensor on. */
static gd_tensor made(gd_tensor t) {
    if (!t) need(gd_last_status());
    return t;
}

/* ---- The table ------------------------------------------------------------------------------------------ */

/* Reads lengths and kinds, in an order drawn by `seed`. Kinds are numbered as they first appear. */
static void read_table(const char *path, float lengths[FLOWERS][LENGTHS], int64_t kinds[FLOWERS]) {
    char line[256], names[KINDS][64];
    int known = 0;
    FILE *file = fopen(path, "r");
    if (!file || !fgets(line, sizeof line, file)) { /* the first line names the columns */
        fprintf(stderr, "iris: cannot read %s\n", path);
        exit(1);
    }
    for (int row = 0; row < FLOWERS; row++) {
        float *x = lengths[row];
        char name[64];
        if (!fgets(line, sizeof line, file) || sscanf(line, "%f,%f,%f,%f,%63s", &x[0], &x[1], &x[2], &x[3], name) != 5) {
            fprintf(stderr, "iris: line %d of %s is not a flower\n", row + 2, path);
            exit(1);
        }
        int kind = 0;
        while (kind < known && strcmp(names[kind], name) != 0) kind++;
        if (kind == KINDS) {
            fprintf(stderr, "iris: line %d of %s names a fourth kind\n", row + 2, path);
            exit(1);
        }
        if (kind == known) memcpy(names[known++], name, sizeof name);
        kinds[row] = kind;
    }
    fclose(file);

    srand(1); /* shuffled once, so that every batch holds every kind */
    for (int i = FLOWERS - 1; i > 0; i--) {
        int j = rand() % (i + 1);
        float x[LENGTHS];
        memcpy(x, lengths[i], sizeof x);
        memcpy(lengths[i], lengths[j], sizeof x);
        memcpy(lengths[j], x, sizeof x);
        int64_t kind = kinds[i];
        kinds[i] = kinds[j];
        kinds[j] = kind;
    }
}

/* ---- The network ---------------------------------------------------------------------------------------- */

typedef struct network {
    gd_tensor parameters[PARAMETERS]; /* weight and bias of the first layer, then of the second */
} network;

/* Uniform random numbers, which gd_parameter copies to where parameters live. */
static gd_tensor parameter(int64_t rank, int64_t rows, int64_t columns, double bound) {
    int64_t shape[] = {rows, columns};
    return made(gd_parameter(gd_uniform(rank, shape, GD_FLOAT32, -bound, bound), 1));
}

/* All within +-1/sqrt(inputs), as is usual. */
static network make_network(void) {
    return (network){{parameter(2, HIDDEN, LENGTHS, 0.5), parameter(1, HIDDEN, 0, 0.5), parameter(2, KINDS, HIDDEN, 0.25), parameter(1, KINDS, 0, 0.25)}};
}

/* (N, LENGTHS) -> (N, KINDS). Nested calls: if the first fails, so do the others, with its message. */
static gd_tensor forward(const network *net, gd_tensor x) {
    const gd_tensor *p = net->parameters;
    return gd_linear(gd_relu(gd_linear(x, p[0], p[1])), p[2], p[3]);
}

/* ---- Training ------------------------------------------------------------------------------------------- */

/* The table, and the rows of it that a step is about. */
typedef struct table { gd_tensor x, y; } table;

/* Rows first .. last - 1: views, nothing is copied. */
static table rows(table t, int64_t first, int64_t last) { return (table){gd_slice(t.x, 0, first, last, 1), gd_slice(t.y, 0, first, last, 1)}; }

/* One step on some rows; returns the loss. Whatever it makes dies with the step arena. */
static double train_step(const network *net, gd_optimizer *optimizer, gd_arena *arena, table all, int64_t first, int64_t last) {
    int64_t scope = gd_scope_enter(arena); /* from here on the step arena is this thread's active one */
    need(scope);
    table batch = rows(all, first, last);
    gd_tensor loss = made(gd_cross_entropy(forward(net, batch.x), batch.y, 0, -100, 1, 0.0)); /* no class weights; the mean */
    need(gd_backward(loss, 0, 0, 0, NULL)); /* fills the gradients of the parameters */
    need(gd_optimizer_step(optimizer));
    need(gd_optimizer_zero_grad(optimizer));
    double value = gd_item_float(loss); /* a number outlives the arena, the tensor does not */
    need(gd_scope_exit(scope));
    need(gd_arena_reset(arena)); /* one pointer moves; the memory is used again by the next step */
    return value;
}

/* How many of the rows are named rightly. */
static int64_t count_right(const network *net, gd_arena *arena, table all, int64_t first, int64_t last) {
    int64_t scope = gd_scope_enter(arena), mode = gd_grad_mode_enter(0); /* no graph: nothing is to be learnt */
    need(scope);
    table batch = rows(all, first, last);
    int64_t kinds = -1; /* the last dimension */
    gd_tensor guess = gd_reduce(GD_OP_argmax, forward(net, batch.x), &kinds, 1, 0, 0);
    gd_tensor right = made(gd_reduce(GD_OP_sum, gd_eq(guess, batch.y), NULL, 0, 0, 0));
    int64_t count = gd_item_int(right);
    gd_grad_mode_exit(mode, 0);
    need(gd_scope_exit(scope));
    need(gd_arena_reset(arena));
    return count;
}

static void print_memory(const gd_arena *arena) {
    gd_arena_stats s = gd_arena_get_stats(arena);
    printf("arena %-9s %6lld bytes at most, %lld allocations, %lld resets\n", gd_arena_name(arena), (long long)s.high_water, (long long)s.allocations,
           (long long)s.resets);
}

int main(int argc, char **argv) {
    static float lengths[FLOWERS][LENGTHS];
    static int64_t kinds[FLOWERS];
    read_table(argc > 1 ? argv[1] : "examples/iris.csv", lengths, kinds);

    gd_manual_seed(0);
    int64_t flowers = FLOWERS, shape[] = {FLOWERS, LENGTHS}, by_column = 0;
    gd_tensor x = gd_from_data(2, shape, GD_FLOAT32, lengths); /* copies */
    /* Every length to mean 0 and deviation 1: (x - mean) / sqrt(var) */
    x = gd_div(gd_sub(x, gd_reduce(GD_OP_mean, x, &by_column, 1, 1, 0)), gd_sqrt(gd_reduce(GD_OP_var, x, &by_column, 1, 1, 1)));
    table all = {made(x), made(gd_from_data(1, &flowers, GD_INT64, kinds))};

    network net = make_network();
    gd_optimizer *adamw = gd_optimizer_open(GD_ADAMW);
    gd_hyper hyper = {.lr = 1e-2, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 1e-2};
    need(gd_optimizer_add_group(adamw, net.parameters, PARAMETERS));
    need(gd_optimizer_set_hyper(adamw, 0, &hyper));

    gd_arena *step = gd_arena_open(0, 0, "step"); /* default reserve: address space, no memory */
    if (!step) need(gd_last_status());

    for (int epoch = 1; epoch <= EPOCHS; epoch++) {
        double total = 0;
        for (int64_t i = 0; i < TRAINING; i += BATCH) {
            int64_t end = i + BATCH < TRAINING ? i + BATCH : TRAINING;
            total += train_step(&net, adamw, step, all, i, end) * (double)(end - i);
        }
        if (epoch == 1 || epoch % 10 == 0) printf("epoch %2d: training loss %.4f\n", epoch, total / TRAINING);
    }

    int64_t right = count_right(&net, step, all, TRAINING, FLOWERS);
    printf("unseen flowers: %lld of %d named rightly\n", (long long)right, FLOWERS - TRAINING);
    print_memory(gd_arena_permanent());
    print_memory(step);

    gd_optimizer_close(adamw);
    for (int k = 0; k < PARAMETERS; k++) need(gd_parameter_free(net.parameters[k]));
    need(gd_arena_close(step));
    return 0;
}
