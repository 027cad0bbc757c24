/* status.h - errors are values: the place that detects one writes its message, callers pass it on. */
#ifndef GRADINO_STATUS_H
#define GRADINO_STATUS_H

#include "gradino.h"

#pragma GCC visibility push(hidden)

/* Records a message for this thread and returns `code`. */
gd_status gd_fail(gd_status code, const char *format, ...) __attribute__((format(printf, 2, 3), cold));
/* Leaves a warning for gd_take_warning(); the newest one wins. */
void gd_warn(const char *format, ...) __attribute__((format(printf, 1, 2), cold));
/* Whether a warning waits. */
bool gd_has_warning(void);
/* For the end of a call that went well. */
static inline gd_status gd_done(void) { return gd_has_warning() ? GD_WARNING : GD_OK; }
/* "(2, 3)" for messages. The text stays good for the next seven calls in this thread. */
const char *gd_text_shape(int64_t rank, const int64_t *shape);

#pragma GCC visibility pop

#define GD_TRY(expression)                       \
    do {                                         \
        gd_status status_ = (expression);        \
        if (status_ < 0) return status_;         \
    } while (0)

/* The same in a function that returns a handle. */
#define GD_TRY_TENSOR(expression)                \
    do {                                         \
        if ((expression) < 0) return 0;          \
    } while (0)

#endif
