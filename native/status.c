/* status.c - the error and warning messages of each thread. */
#include "engine.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static atomic_int warning_pending;
static atomic_flag warning_lock = ATOMIC_FLAG_INIT;
static char warning[GD_MESSAGE_BYTES];

gd_status gd_fail(gd_status code, const char *format, ...) {
    gd_thread *t = gd_self();
    va_list args;
    va_start(args, format);
    vsnprintf(t->message, sizeof t->message, format, args);
    va_end(args);
    t->last_status = code;
    return code;
}

void gd_warn(const char *format, ...) {
    va_list args;
    va_start(args, format);
    while (atomic_flag_test_and_set(&warning_lock)) {}
    vsnprintf(warning, sizeof warning, format, args);
    atomic_flag_clear(&warning_lock);
    va_end(args);
    atomic_store(&warning_pending, 1);
}

bool gd_has_warning(void) { return atomic_load_explicit(&warning_pending, memory_order_relaxed) != 0; }

const char *gd_take_warning(void) {
    gd_thread *t = gd_self();
    if (!atomic_exchange(&warning_pending, 0)) return NULL;
    while (atomic_flag_test_and_set(&warning_lock)) {}
    memcpy(t->warning, warning, sizeof warning);
    atomic_flag_clear(&warning_lock);
    return t->warning;
}

const char *gd_last_error(void) { return gd_self()->message; }
gd_status gd_last_status(void) { return gd_self()->last_status; }

void gd_clear_error(void) {
    gd_thread *t = gd_self();
    t->message[0] = 0;
    t->last_status = GD_OK;
}

const char *gd_status_name(gd_status status) {
    static const char *const names[] = {"ok",     "error",  "shape", "dtype", "arena",        "stale tensor",
                                        "memory", "device", "value", "index", "zero division", "callback"};
    return status > 0 ? "warning" : status < GD_ERR_CALLBACK ? "unknown" : names[-status];
}

const char *gd_text_shape(int64_t rank, const int64_t *shape) {
    enum { SHAPE_BYTES = sizeof gd_self()->shape_text[0] };
    gd_thread *t = gd_self();
    char *text = t->shape_text[t->shape_next++ % GD_SHAPE_TEXTS];
    int at = snprintf(text, SHAPE_BYTES, "(");
    for (int64_t d = 0; d < rank; d++)
        at += snprintf(text + at, (size_t)(SHAPE_BYTES - at), d + 1 < rank ? "%lld, " : rank == 1 ? "%lld," : "%lld", (long long)shape[d]);
    snprintf(text + at, (size_t)(SHAPE_BYTES - at), ")");
    return text;
}
