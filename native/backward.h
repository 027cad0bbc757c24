/* backward.h - one run of backward, as the walk over the graph (autograd.c) and the gathering of gradients
 * (gradient.c) see it. */
#ifndef GRADINO_BACKWARD_H
#define GRADINO_BACKWARD_H

#include "recycle.h"

#pragma GCC visibility push(hidden)

typedef struct node_list { /* grows in the arena */
    gd_node **item;
    int64_t count, room;
} node_list;

/* What a node was before the run changed it for good: a run that fails puts it back. */
enum { GD_LASTING = GD_GRAD_SET | GD_GRAD_SEEN | GD_FREED };
typedef struct change {
    gd_node *node;
    gd_tensor grad;
    uint16_t work;
} change;

/* The working fields of a node that a run inside a run uses, too: they are put back at its end. */
typedef struct kept_work {
    gd_node *node;
    gd_tensor acc;
    uint32_t stamp, pending, capture;
    uint16_t work;
} kept_work;

typedef struct gd_backward_run {
    gd_arena *arena;
    uint32_t stamp;
    bool retain_graph, create_graph;
    bool to_leaves;            /* fill .grad; otherwise only `captured` */
    bool into;                 /* fill .grad of the inputs of the call only */
    bool stop;                 /* at the inputs: nothing behind them belongs to the run */
    int64_t wanted;            /* with stop: how many of the inputs get a gradient */
    bool kept_memory;          /* something made here outlives the run in the active arena */
    struct gd_backward_run *outer; /* a run whose code of the caller began this one */
    gd_optimizer *optimizer;
    int64_t updated;           /* parameters the optimizer was applied to */
    gd_tensor *captured;       /* by capture - 1 */
    node_list stack;
    struct { change *item; int64_t count, room; } changes; /* for good: undone if the run fails */
    struct { kept_work *item; int64_t count, room; } kept;
    gd_arena *home;            /* another arena that got gradients of leaves, and where it was before */
    gd_place home_place;
    gd_recycler *recycler;
    uint8_t device;            /* where the caller's own code makes tensors */
    struct { gd_node *node; int dim; int64_t from, to; bool shared; } open; /* a gradient of which only [from, to) along dim is written yet;
                                                     shared: what other gradients read may stand in the rest of its memory */
} gd_backward_run;

/* The first output of n's op, which carries the graph. */
static inline gd_node *gd_primary(gd_node *n) { return n - n->out_index; }

/* Onto the stack of nodes. */
gd_status gd_backward_push(gd_backward_run *run, gd_node *n);
/* Makes g (or 0) n's gradient so far, in place of another. */
void gd_backward_set(gd_backward_run *run, gd_node *n, gd_tensor g);
/* Before .grad or a lasting flag of a node changes. */
gd_status gd_backward_note(gd_backward_run *run, gd_node *n);
/* Before a run inside a run uses the working fields of n. */
gd_status gd_backward_keep(gd_backward_run *run, gd_node *n);
/* Runs code of the caller. `in` are gradients, which are not recycled any more. */
gd_status gd_call_back(gd_backward_run *run, int kind, int64_t object, gd_tensor tensor, const gd_tensor *in, int64_t nin, gd_tensor *out, int64_t nout,
                       bool keeps);
/* Undoes what was noted. */
void gd_backward_put_back(gd_backward_run *run);
/* All contributions to n's gradient, n->acc, are in. */
gd_status gd_backward_arrived(gd_backward_run *run, gd_node *n);

#pragma GCC visibility pop
#endif
