/* threads.c - many threads in the engine at once: models of their own, shared parameters, one arena, exports
 * closed elsewhere, parameters that come and go. Results must be those of one thread alone; meant for a library
 * built with the thread sanitizer, too. Usage: threads THREADS ROUNDS. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "gradino.h"

#include "check.h"

enum { MOST = 16, HIDDEN = 70, INPUT = 33, BATCH = 65, CLASSES = 5 };
static int nthreads, rounds;

static void run_all(void *(*work)(void *), void *contexts[]) {
    pthread_t thread[MOST];
    for (int i = 0; i < nthreads; i++) CHECK(pthread_create(&thread[i], NULL, work, contexts[i]) == 0);
    for (int i = 0; i < nthreads; i++) CHECK(pthread_join(thread[i], NULL) == 0);
}

static gd_tensor constant(int64_t n, float value) {
    gd_tensor t = gd_full(1, &n, GD_FLOAT32, value, 0);
    CHECK(t);
    return t;
}

/* ---- A model each --------------------------------------------------------------------------------------- */

typedef struct training {
    gd_tensor p[4], x, y;
    gd_optimizer *optimizer;
    double loss;
} training;

/* The numbers come from a formula, so that every training starts the same whatever others draw. */
static gd_tensor numbers(int64_t rank, int64_t rows, int64_t columns) {
    static float values[BATCH * HIDDEN + HIDDEN * INPUT];
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    int64_t shape[] = {rows, columns}, count = rank == 2 ? rows * columns : rows;
    pthread_mutex_lock(&mutex);
    for (int64_t i = 0; i < count; i++) values[i] = (float)(i * 7919 % 1009) / 1009 - 0.5f;
    gd_tensor t = gd_from_data(rank, shape, GD_FLOAT32, values);
    pthread_mutex_unlock(&mutex);
    CHECK(t);
    return t;
}

static void prepare(training *m) {
    int64_t labels[BATCH], batch = BATCH;
    for (int i = 0; i < BATCH; i++) labels[i] = i * 31 % CLASSES;
    m->p[0] = gd_parameter(numbers(2, HIDDEN, INPUT), 1);
    m->p[1] = gd_parameter(numbers(1, HIDDEN, 0), 1);
    m->p[2] = gd_parameter(numbers(2, CLASSES, HIDDEN), 1);
    m->p[3] = gd_parameter(numbers(1, CLASSES, 0), 1);
    m->x = numbers(2, BATCH, INPUT);
    m->y = gd_from_data(1, &batch, GD_INT64, labels);
    m->optimizer = gd_optimizer_open(GD_ADAMW);
    CHECK(m->p[3] && m->y && m->optimizer && gd_optimizer_add_group(m->optimizer, m->p, 4) >= 0);
    CHECK(gd_optimizer_set_hyper(m->optimizer, 0, &(gd_hyper){.lr = 1e-2, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8}) >= 0);
}

static void *train(void *context) {
    training *m = context;
    prepare(m);
    for (int k = 0; k < rounds; k++) {
        int64_t scope = gd_scope_enter_step();
        gd_tensor h = gd_tanh(gd_linear(m->x, m->p[0], m->p[1]));
        gd_tensor loss = gd_cross_entropy(gd_linear(h, m->p[2], m->p[3]), m->y, 0, -100, 1, 0);
        CHECK(loss && gd_backward(loss, 0, 0, 0, k % 2 ? m->optimizer : NULL) >= 0);
        if (k % 2 == 0) CHECK(gd_optimizer_step(m->optimizer) >= 0 && gd_optimizer_zero_grad(m->optimizer) >= 0);
        m->loss = gd_item_float(loss);
        CHECK(gd_scope_exit(scope) >= 0);
    }
    gd_optimizer_close(m->optimizer);
    for (int i = 0; i < 4; i++) CHECK(gd_parameter_free(m->p[i]) >= 0);
    return NULL;
}

static void a_model_each(void) {
    training alone = {.loss = 0}, each[MOST];
    void *contexts[MOST];
    train(&alone);
    for (int i = 0; i < nthreads; i++) contexts[i] = &each[i];
    run_all(train, contexts);
    for (int i = 0; i < nthreads; i++) CHECK(memcmp(&each[i].loss, &alone.loss, sizeof alone.loss) == 0);
}

/* ---- Shared parameters ---------------------------------------------------------------------------------- */

static gd_tensor shared;

static void *add_to_shared(void *context) {
    (void)context;
    for (int k = 0; k < rounds; k++) {
        int64_t scope = gd_scope_enter_step();
        gd_tensor y = gd_reduce(GD_OP_sum, gd_mul(shared, constant(50, 2)), NULL, 0, 0, 0);
        CHECK(y && gd_backward(y, 0, 0, 0, NULL) >= 0);
        CHECK(gd_scope_exit(scope) >= 0);
    }
    return NULL;
}

static void shared_parameters(void) {
    void *contexts[MOST] = {NULL};
    shared = gd_parameter(constant(50, 1), 1);
    run_all(add_to_shared, contexts);
    CHECK(gd_item_float(gd_select(gd_get_grad(shared), 0, 49)) == 2.0 * nthreads * rounds);
    CHECK(gd_parameter_free(shared) >= 0);
}

/* ---- One arena, exports that others close, parameters that come and go --------------------------------------- */

enum { SLOTS = 64 };
typedef struct handed { gd_export *e; const float *data; float value; } handed;
static _Atomic(handed *) slots[SLOTS];
static gd_arena *common;

static void *share_arena(void *context) {
    uint32_t random = (uint32_t)(uintptr_t)context * 2654435761u + 1;
    for (int k = 0; k < rounds * 10; k++) {
        random = random * 1664525u + 1013904223u;
        float value = (float)(random >> 16);
        int64_t scope = gd_scope_enter(k % 3 ? common : gd_arena_permanent());
        gd_tensor t = constant(17, value), twice = gd_add(t, t);
        gd_tensor_info info;
        CHECK(twice && gd_info(twice, &info) >= 0 && gd_item_float(gd_select(twice, 0, 16)) == 2 * value);
        handed *mine = malloc(sizeof *mine);
        *mine = (handed){gd_export_open(twice), info.data, 2 * value};
        CHECK(mine->e);
        handed *other = atomic_exchange(&slots[random % SLOTS], mine);
        if (other) {
            for (int i = 0; i < 17; i++) CHECK(other->data[i] == other->value);
            gd_export_close(other->e);
            free(other);
        }
        CHECK(gd_scope_exit(scope) >= 0);
        gd_tensor p = gd_parameter(t, 1);
        CHECK(p && gd_item_float(gd_select(p, 0, 3)) == value && gd_parameter_free(p) >= 0);
        CHECK_FAILS(gd_check(p), GD_ERR_STALE, "freed");
        CHECK(gd_arena_get_stats(common).used >= 0);
    }
    return NULL;
}

static void one_arena(void) {
    void *contexts[MOST];
    for (int i = 0; i < nthreads; i++) contexts[i] = (void *)(intptr_t)(i + 1);
    common = gd_arena_open(0, 0, "common");
    run_all(share_arena, contexts);
    CHECK(gd_arena_close(common) >= 0); /* exports of it live on */
    for (int i = 0; i < SLOTS; i++) {
        handed *h = atomic_load(&slots[i]);
        if (!h) continue;
        for (int k = 0; k < 17; k++) CHECK(h->data[k] == h->value);
        gd_export_close(h->e);
        free(h);
    }
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    nthreads = atoi(argv[1]);
    rounds = atoi(argv[2]);
    CHECK(nthreads <= MOST && gd_set_num_threads(2) >= 0);
    a_model_each();
    shared_parameters();
    one_arena();
    puts("all is well");
    return 0;
}
