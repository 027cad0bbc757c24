/* check.h - what the test programs share: CHECK, which ends the program with a message, and small helpers. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                                        \
    do {                                                                                                        \
        if (!(condition)) {                                                                                     \
            fprintf(stderr, "%s:%d: %s\n  last error: %s\n", __FILE__, __LINE__, #condition, gd_last_error()); \
            exit(1);                                                                                            \
        }                                                                                                       \
    } while (0)

/* The call failed with this status, and its message has these words. */
#define CHECK_FAILS(call, status, words)                       \
    do {                                                       \
        gd_clear_error();                                      \
        CHECK((int64_t)(call) == 0 || (int64_t)(call) < 0);    \
        CHECK(gd_last_status() == (status));                   \
        CHECK(strstr(gd_last_error(), words) != NULL);         \
        gd_clear_error();                                      \
    } while (0)

#endif
