/* alone.c - what the system side needs of the rest of the library when a test builds it alone. */
#include <stdarg.h>
#include <stdio.h>

#include "status.h"

static _Thread_local char message[512];

gd_status gd_fail(gd_status code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return code;
}

void gd_warn(const char *format, ...) { (void)format; }

const char *gd_last_error(void) { return message; }
