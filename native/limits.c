/* limits.c - how many threads to use by default: affinity mask, cgroup quota, environment.
 * Sources: cgroups(7), Documentation/admin-guide/cgroup-v2.rst and scheduler/sched-bwc.rst of Linux. */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cpu.h"
#include "status.h"
#include "thread.h"

enum { PATH_BYTES = 4096, TEXT_BYTES = 16384, MASK_BITS = 8192 };

static int requested;           /* GRADINO_NUM_THREADS or OMP_NUM_THREADS; 0: neither */
static char refused_value[32];  /* a GRADINO_NUM_THREADS that is not a thread count */

/* ---- cgroup ----------------------------------------------------------------------------------- */

/* Reads a small file of a directory into text; false if there is none. */
static bool read_text(const char *directory, const char *name, char *text, size_t bytes) {
    char path[PATH_BYTES];
    if ((size_t)snprintf(path, sizeof path, "%s/%s", directory, name) >= sizeof path) return false;
    FILE *file = fopen(path, "re");
    if (!file) return false;
    size_t length = fread(text, 1, bytes - 1, file);
    text[length] = 0;
    fclose(file);
    return true;
}

/* Processors that "quota period" (microseconds) grants, rounded up; 0: no limit ("max", -1). */
static int granted_cpus(const char *quota_and_period) {
    long long quota, period;
    if (sscanf(quota_and_period, "%lld %lld", &quota, &period) != 2 || quota <= 0 || period <= 0) return 0;
    long long cpus = quota / period + (quota % period != 0);
    return cpus > GD_MAX_THREADS ? GD_MAX_THREADS : (int)cpus;
}

/* The limit that one cgroup directory states: cpu.max (v2), or quota and period files (v1). */
static int directory_limit(const char *directory) {
    char text[128], period[64];
    if (read_text(directory, "cpu.max", text, sizeof text)) return granted_cpus(text);
    if (!read_text(directory, "cpu.cfs_quota_us", text, sizeof text / 2)) return 0;
    if (!read_text(directory, "cpu.cfs_period_us", period, sizeof period)) return 0;
    return granted_cpus(strcat(text, period)); /* the first ends its line */
}

/* The tightest limit from a cgroup up to its mount: a parent's quota binds its children. Parts of
 * the path that are not to be seen from inside a container are passed over. */
static int tightest_limit(const char *mount, const char *group) {
    char directory[PATH_BYTES];
    int tightest = 0;
    if ((size_t)snprintf(directory, sizeof directory, "%s%s", mount, group) >= sizeof directory) return 0;
    for (;;) {
        int limit = directory_limit(directory);
        if (limit && (!tightest || limit < tightest)) tightest = limit;
        char *slash = strrchr(directory + strlen(mount), '/');
        if (!slash) return tightest;
        *slash = 0;
    }
}

static bool lists(const char *controllers, const char *name) {
    size_t length = strlen(name);
    for (const char *at = controllers; (at = strstr(at, name)); at += length) {
        bool begins = at == controllers || at[-1] == ',';
        if (begins && (at[length] == ',' || !at[length])) return true;
    }
    return false;
}

/* The cgroup limit of this process; 0: none. Lines of /proc/self/cgroup are "id:controllers:/group".
 * GRADINO_CGROUP_ROOT stands in for / in tests. */
static int cgroup_limit(void) {
    const char *root = getenv("GRADINO_CGROUP_ROOT");
    if (!root) root = "";
    char mount[PATH_BYTES], text[TEXT_BYTES], *line, *rest = text;
    if (!read_text(root, "proc/self/cgroup", text, sizeof text)) strcpy(text, "0::/\n");

    int tightest = 0;
    while ((line = strsep(&rest, "\n"))) {
        strsep(&line, ":");
        char *controllers = strsep(&line, ":"), *group = line;
        if (!controllers || !group) continue;
        bool v2 = !*controllers;
        if (!v2 && !lists(controllers, "cpu")) continue;
        /* v1 is mounted at its list of controllers, with a link, or a mount of its own, at cpu. */
        const char *mounts[] = {v2 ? "" : "cpu", controllers};
        for (int i = 0; i < 2 - v2; i++) {
            if ((size_t)snprintf(mount, sizeof mount, "%s/sys/fs/cgroup/%s", root, mounts[i]) >= sizeof mount) continue;
            int limit = tightest_limit(mount, group);
            if (limit && (!tightest || limit < tightest)) tightest = limit;
        }
    }
    return tightest;
}

/* ---- Processors ------------------------------------------------------------------------------- */

/* Processors in the calling thread's affinity mask; 0 where that is not to be had. */
static int affinity_cpus(void) {
    int count = 0;
#ifdef __linux__
    unsigned long mask[MASK_BITS / (8 * sizeof(unsigned long))] = {0};
    if (sched_getaffinity(0, sizeof mask, (cpu_set_t *)mask)) return 0;
    for (size_t i = 0; i < sizeof mask / sizeof *mask; i++) count += __builtin_popcountl(mask[i]);
#endif
    return count;
}

void gd_processor_limits(gd_machine *out) {
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    out->online = online < 1 ? 1 : online > GD_MAX_THREADS ? GD_MAX_THREADS : (int32_t)online;
    out->affinity = affinity_cpus();
    out->granted = cgroup_limit();
    out->requested = requested;
}

int gd_usable_cpus(void) {
    gd_machine m;
    gd_processor_limits(&m);
    int least = m.online, limits[] = {m.affinity, m.granted};
    for (int i = 0; i < 2; i++) {
        if (limits[i] && limits[i] < least) least = limits[i];
    }
    return least;
}

/* ---- Environment ------------------------------------------------------------------------------ */

/* A thread count from 1 up; 0 where the text is not one. `list`: only the first of "4,2" counts. */
static int parse_count(const char *text, bool list) {
    char *end;
    errno = 0;
    long n = strtol(text, &end, 10);
    if (end == text || errno || n < 1) return 0;
    end += strspn(end, " \t");
    if (*end && !(list && *end == ',')) return 0;
    return n > GD_MAX_THREADS ? (list ? GD_MAX_THREADS : 0) : (int)n;
}

/* Read once, at load: later changes of the environment could race with getenv. */
__attribute__((constructor)) static void read_environment(void) {
    const char *ours = getenv("GRADINO_NUM_THREADS"), *openmp = getenv("OMP_NUM_THREADS");
    if (ours && *ours) {
        requested = parse_count(ours, false);
        if (!requested) snprintf(refused_value, sizeof refused_value, "%s", ours);
    }
    if (!requested && openmp) requested = parse_count(openmp, true);
}

gd_status gd_check_thread_environment(void) {
    if (!*refused_value) return GD_OK;
    gd_warn("GRADINO_NUM_THREADS=%s is not a number from 1 to %d: using %d threads", refused_value, GD_MAX_THREADS,
            gd_default_num_threads());
    return GD_WARNING;
}

int gd_default_num_threads(void) { return requested ? requested : gd_usable_cpus(); }
