/* api_move.c - public entry points of data movement: joining, picking, counting. */
#include "engine.h"

gd_tensor gd_cat(const gd_tensor *tensors, int64_t count, int64_t dim) {
    gd_node *first = count > 0 ? gd_node_of(tensors[0], "cat") : NULL;
    if (!first) {
        if (count <= 0) gd_fail(GD_ERR_VALUE, "cat: needs at least one tensor");
        return 0;
    }
    int64_t d = gd_dim(&first->v, dim, "cat");
    return d < 0 ? 0 : gd_record(GD_OP_cat, tensors, count, &(gd_attr){.i = {d}}, NULL);
}

gd_tensor gd_stack(const gd_tensor *tensors, int64_t count, int64_t dim) {
    gd_node *first = count > 0 ? gd_node_of(tensors[0], "stack") : NULL;
    if (!first) {
        if (count <= 0) gd_fail(GD_ERR_VALUE, "stack: needs at least one tensor");
        return 0;
    }
    int64_t rank = first->v.rank + 1, at = dim < 0 ? dim + rank : dim;
    for (int64_t k = 1; k < count; k++) {
        gd_node *n = gd_node_of(tensors[k], "stack");
        if (!n) return 0;
        if (n->v.rank != first->v.rank || memcmp(n->v.shape, first->v.shape, sizeof n->v.shape) != 0) {
            gd_fail(GD_ERR_SHAPE, "stack: shapes %s and %s (tensor %lld) differ", gd_text_view(&first->v), gd_text_view(&n->v), (long long)k);
            return 0;
        }
    }
    gd_start start = gd_here();
    gd_tensor few[GD_FEW_INPUTS], *parts = count <= GD_FEW_INPUTS ? few : gd_scratch(start.arena, count * (int64_t)sizeof *parts);
    bool ok = parts != NULL;
    for (int64_t k = 0; k < count && ok; k++) ok = (parts[k] = gd_unsqueeze(tensors[k], at)) != 0;
    return gd_or_return(start, ok ? gd_cat(parts, count, at) : 0);
}

static gd_tensor pick(int op, gd_tensor a, int64_t dim, gd_tensor index) {
    gd_node *n = gd_node_of(a, gd_ops[op].name), *i = n ? gd_node_of(index, gd_ops[op].name) : NULL;
    if (!i) return 0;
    int64_t d = gd_dim(&n->v, dim, gd_ops[op].name);
    if (d < 0) return 0;
    gd_attr attr = {.i = {d}};
    if (i->v.dtype != GD_INT32) return gd_record(op, (gd_tensor[]){a, index}, 2, &attr, NULL);
    gd_start start = gd_here();
    index = gd_cast(index, GD_INT64);
    return gd_or_return(start, index ? gd_record(op, (gd_tensor[]){a, index}, 2, &attr, NULL) : 0);
}

gd_tensor gd_index_select(gd_tensor a, int64_t dim, gd_tensor index) { return pick(GD_OP_index_select, a, dim, index); }
gd_tensor gd_gather(gd_tensor a, int64_t dim, gd_tensor index) { return pick(GD_OP_gather, a, dim, index); }

gd_tensor gd_one_hot(gd_tensor a, int64_t classes) {
    gd_node *n = gd_node_of(a, "one_hot");
    if (!n) return 0;
    if (classes == -1) {
        double unused;
        if (gd_numel(&n->v) == 0) {
            gd_fail(GD_ERR_VALUE, "one_hot: the number of classes of an empty tensor must be given");
            return 0;
        }
        gd_start start = gd_here();
        gd_tensor largest = gd_reduce(GD_OP_amax, a, NULL, 0, 0, 0);
        if (!largest || gd_item(largest, &unused, &classes) < 0) return 0;
        gd_arena_return(start.arena, &start.place);
        classes++;
    }
    return GD_RECORD(one_hot, &(gd_attr){.i = {classes}}, a);
}

gd_tensor gd_nonzero(gd_tensor a) {
    gd_node *n = gd_node_of(a, "nonzero");
    if (!n) return 0;
    double unused;
    gd_attr attr = {.i = {0}};
    gd_start start = gd_here(); /* for the counting */
    gd_tensor yes = n->v.dtype == GD_BOOL ? a : gd_binary_scalar(GD_OP_ne, a, 0, 0, GD_INT64, 0);
    gd_tensor count = yes ? gd_reduce(GD_OP_sum, yes, NULL, 0, 0, 0) : 0;
    if (count) gd_item(count, &unused, &attr.i[0]);
    if (start.arena) gd_arena_return(start.arena, &start.place);
    return count ? GD_RECORD(nonzero, &attr, a) : 0;
}
