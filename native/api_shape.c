/* api_shape.c - public entry points of views, products, losses, recurrent layers and data movement. */
#include "engine.h"

/* ---- Views ---------------------------------------------------------------------------------------------------- */

gd_tensor gd_contiguous(gd_tensor t) {
    gd_node *n = gd_node_of(t, "contiguous");
    if (!n) return 0;
    return gd_is_contiguous(&n->v) ? t : GD_RECORD(copy, NULL, t);
}

static gd_tensor reshape(gd_tensor a, int64_t rank, const int64_t *shape, bool may_copy) {
    gd_node *n = gd_node_of(a, "reshape");
    if (!n) return 0;
    if (rank < 0 || rank > GD_DIMS) {
        gd_fail(GD_ERR_SHAPE, "reshape: rank %lld: tensors have at most four dimensions", (long long)rank);
        return 0;
    }
    gd_attr attr = {.i = {[4] = rank}};
    int64_t known = 1, count = gd_numel(&n->v), open = -1;
    for (int64_t d = 0; d < rank; d++) {
        attr.i[d] = shape[d];
        if (shape[d] == -1 && open < 0) open = d;
        else if (shape[d] < 0 || __builtin_mul_overflow(known, shape[d], &known)) {
            gd_fail(GD_ERR_SHAPE, "reshape: %s is no shape: sizes must be at least 0, one of them may be -1", gd_text_shape(rank, shape));
            return 0;
        }
    }
    if (open >= 0) {
        if (known == 0 || count % known) {
            gd_fail(GD_ERR_SHAPE, "reshape: shape %s has %lld elements, which does not fit %s", gd_text_view(&n->v), (long long)count, gd_text_shape(rank, shape));
            return 0;
        }
        attr.i[open] = count / known;
    }
    if (may_copy && !gd_is_contiguous(&n->v)) { /* a view if the strides allow it */
        gd_shape_call probe = {.name = "reshape", .in = &n, .nin = 1, .attr = &attr, .nout = 1, .op = GD_OP_reshape};
        if (gd_ops[GD_OP_reshape].shape(&probe) < 0) {
            gd_clear_error();
            gd_start start = gd_here();
            a = GD_RECORD(copy, NULL, a);
            return gd_or_return(start, a ? GD_RECORD(reshape, &attr, a) : 0);
        }
    }
    return GD_RECORD(reshape, &attr, a);
}

gd_tensor gd_reshape(gd_tensor a, int64_t rank, const int64_t *shape) { return reshape(a, rank, shape, true); }
gd_tensor gd_view_as(gd_tensor a, int64_t rank, const int64_t *shape) { return reshape(a, rank, shape, false); }

gd_tensor gd_permute(gd_tensor a, int64_t rank, const int64_t *dims) {
    gd_node *n = gd_node_of(a, "permute");
    if (!n) return 0;
    if (rank != n->v.rank) {
        gd_fail(GD_ERR_SHAPE, "permute: %lld dimensions named for shape %s: each must be named once", (long long)rank, gd_text_view(&n->v));
        return 0;
    }
    gd_attr attr = {.i = {0, 1, 2, 3, rank}};
    for (int64_t d = 0; d < rank; d++) {
        int64_t from = gd_dim(&n->v, dims[d], "permute");
        if (from < 0) return 0;
        attr.i[GD_DIMS - rank + d] = from;
    }
    return GD_RECORD(permute, &attr, a);
}

gd_tensor gd_transpose(gd_tensor a, int64_t dim0, int64_t dim1) {
    gd_node *n = gd_node_of(a, "transpose");
    if (!n) return 0;
    int64_t d0 = gd_dim(&n->v, dim0, "transpose"), d1 = gd_dim(&n->v, dim1, "transpose");
    if (d0 < 0 || d1 < 0) return 0;
    gd_attr attr = {.i = {0, 1, 2, 3, n->v.rank}};
    attr.i[d0] = d1;
    attr.i[d1] = d0;
    return GD_RECORD(permute, &attr, a);
}

gd_tensor gd_expand(gd_tensor a, int64_t rank, const int64_t *shape) {
    gd_attr attr = {.i = {[4] = rank}};
    for (int64_t d = 0; d < rank && d < GD_DIMS; d++) attr.i[d] = shape[d];
    return GD_RECORD(expand, &attr, a);
}

gd_tensor gd_squeeze(gd_tensor a, int64_t dim, int all) {
    gd_node *n = gd_node_of(a, "squeeze");
    if (!n) return 0;
    int64_t shape[GD_DIMS], rank = 0, drop = all ? -1 : gd_dim(&n->v, dim, "squeeze");
    if (!all && drop < 0) return 0;
    for (int d = GD_DIMS - n->v.rank; d < GD_DIMS; d++)
        if (n->v.shape[d] != 1 || (!all && d != drop)) shape[rank++] = n->v.shape[d];
    return rank == n->v.rank ? a : gd_reshape(a, rank, shape);
}

gd_tensor gd_unsqueeze(gd_tensor a, int64_t dim) {
    gd_node *n = gd_node_of(a, "unsqueeze");
    if (!n) return 0;
    int64_t rank = n->v.rank + 1, at = dim < 0 ? dim + rank : dim, shape[GD_DIMS + 1];
    if (at < 0 || at >= rank) {
        gd_fail(GD_ERR_INDEX, "unsqueeze: dimension %lld of shape %s: it must be in [%lld, %lld]", (long long)dim, gd_text_view(&n->v), (long long)-rank,
                (long long)(rank - 1));
        return 0;
    }
    for (int64_t d = 0, from = GD_DIMS - n->v.rank; d < rank; d++) shape[d] = d == at ? 1 : n->v.shape[from++];
    return gd_reshape(a, rank, shape);
}

gd_tensor gd_slice(gd_tensor a, int64_t dim, int64_t start, int64_t stop, int64_t step) {
    gd_node *n = gd_node_of(a, "slice");
    if (!n) return 0;
    int64_t d = gd_dim(&n->v, dim, "slice");
    if (d < 0) return 0;
    if (step < 1) {
        gd_fail(GD_ERR_VALUE, "slice: step is %lld, must be at least 1", (long long)step);
        return 0;
    }
    int64_t size = n->v.shape[d];
    start = start < 0 ? (start + size < 0 ? 0 : start + size) : start > size ? size : start;
    stop = stop < 0 ? (stop + size < 0 ? 0 : stop + size) : stop > size ? size : stop;
    int64_t length = stop > start ? (stop - start - 1) / step + 1 : 0;
    if (length == 0) start = 0;
    gd_attr attr = {.i = {0, 0, 0, 0, 1, 1, 1, 1, n->v.shape[0], n->v.shape[1], n->v.shape[2], n->v.shape[3]}};
    attr.i[d] = start;
    attr.i[4 + d] = length > 1 ? step : 1;
    attr.i[8 + d] = length;
    return GD_RECORD(slice, &attr, a);
}

gd_tensor gd_select(gd_tensor a, int64_t dim, int64_t index) {
    gd_node *n = gd_node_of(a, "index");
    if (!n) return 0;
    int64_t d = gd_dim(&n->v, dim, "index");
    if (d < 0) return 0;
    if (n->v.rank == 0) {
        gd_fail(GD_ERR_INDEX, "index: a scalar has no dimension to index; use .item()");
        return 0;
    }
    int64_t size = n->v.shape[d], at = index < 0 ? index + size : index, shape[GD_DIMS], rank = 0;
    if (at < 0 || at >= size) {
        gd_fail(GD_ERR_INDEX, "index: %lld is out of range for dimension %lld of shape %s", (long long)index, (long long)(d - GD_DIMS + n->v.rank),
                gd_text_view(&n->v));
        return 0;
    }
    for (int k = GD_DIMS - n->v.rank; k < GD_DIMS; k++)
        if (k != d) shape[rank++] = n->v.shape[k];
    gd_start start = gd_here();
    gd_tensor part = gd_slice(a, d - GD_DIMS, at, at + 1, 1);
    return gd_or_return(start, part ? gd_reshape(part, rank, shape) : 0);
}

gd_tensor gd_detach(gd_tensor a) { return GD_RECORD(detach, NULL, a); }

/* ---- Products, losses, recurrent ------------------------------------------------------------------------------------ */

/* Vectors become matrices for the product and vanish from its result, as in NumPy. */
gd_tensor gd_matmul(gd_tensor a, gd_tensor b) {
    gd_node *na = gd_node_of(a, "matmul"), *nb = na ? gd_node_of(b, "matmul") : NULL;
    if (!nb) return 0;
    if (na->v.rank == 0 || nb->v.rank == 0) {
        gd_fail(GD_ERR_SHAPE, "matmul: a is %s, b is %s: both need at least one dimension", gd_text_view(&na->v), gd_text_view(&nb->v));
        return 0;
    }
    if (na->v.dtype != nb->v.dtype) {
        gd_fail(GD_ERR_DTYPE, "matmul: a is %s, b is %s: they must have one dtype", gd_dtype_name(na->v.dtype), gd_dtype_name(nb->v.dtype));
        return 0;
    }
    bool row = na->v.rank == 1, column = nb->v.rank == 1;
    if ((row || column) && na->v.shape[3] != nb->v.shape[column ? 3 : 2]) {
        gd_fail(GD_ERR_SHAPE, "matmul: a is %s, b is %s: the last dimension of a must equal the %s of b", gd_text_view(&na->v), gd_text_view(&nb->v),
                column ? "only one" : "last but one");
        return 0;
    }
    if (!row && !column) return GD_RECORD(matmul, NULL, a, b);
    gd_start start = gd_here();
    if (row) a = gd_unsqueeze(a, 0);
    if (column && a) b = gd_unsqueeze(b, 1);
    gd_tensor product = a && b ? GD_RECORD(matmul, NULL, a, b) : 0;
    if (product && column) product = gd_squeeze(product, -1, 0);
    if (product && row) product = gd_squeeze(product, column ? -1 : -2, 0);
    return gd_or_return(start, product);
}

gd_tensor gd_linear(gd_tensor x, gd_tensor weight, gd_tensor bias) { return gd_record(GD_OP_linear, (gd_tensor[]){x, weight, bias}, 3, NULL, NULL); }

/* (N, C, ...) -> (N * ..., C) */
static gd_tensor class_rows(gd_tensor x) {
    gd_node *n = gd_node_of(x, "cross_entropy");
    if (!n) return 0;
    const int64_t *shape = gd_logical_shape(&n->v);
    int64_t rows = shape[0], last[GD_DIMS] = {0};
    for (int64_t d = 2; d < n->v.rank; d++) {
        last[d - 1] = d;
        rows *= shape[d];
    }
    last[n->v.rank - 1] = 1;
    return gd_reshape(gd_permute(x, n->v.rank, last), 2, (int64_t[]){rows, shape[1]});
}

/* Logits and targets become the matrices of the op, and losses per row take the shape without classes again. */
static gd_tensor cross_entropy(gd_tensor logits, gd_tensor target, gd_tensor weight, int64_t ignore_index, int reduction, double label_smoothing) {
    gd_node *x = gd_node_of(logits, "cross_entropy"), *t = x ? gd_node_of(target, "cross_entropy") : NULL;
    if (!t) return 0;
    const int64_t *shape = gd_logical_shape(&x->v), *targets = gd_logical_shape(&t->v), rank = x->v.rank;
    bool probabilities = gd_is_float(t->v.dtype);
    if (rank < 1 || t->v.rank != (probabilities ? rank : rank - 1)) {
        gd_fail(GD_ERR_SHAPE, "cross_entropy: logits are %s, target is %s: class targets lack the class dimension of the logits, probabilities have their shape",
                gd_text_view(&x->v), gd_text_view(&t->v));
        return 0;
    }
    int64_t kept[GD_DIMS], nkept = 0; /* all dimensions but that of the classes, the second (the only one of a single row) */
    for (int64_t d = 0; d < rank; d++)
        if (d != (rank == 1 ? 0 : 1)) kept[nkept++] = shape[d];
    if (rank > 2 && memcmp(targets, probabilities ? shape : kept, sizeof *kept * (size_t)t->v.rank) != 0) {
        gd_fail(GD_ERR_SHAPE, "cross_entropy: logits are %s, target is %s: they must agree outside the class dimension (the second), probabilities there too",
                gd_text_view(&x->v), gd_text_view(&t->v));
        return 0;
    }
    if (t->v.dtype == GD_INT32) target = gd_cast(target, GD_INT64);
    if (rank == 1) {
        logits = gd_unsqueeze(logits, 0);
        target = gd_unsqueeze(target, 0);
    } else if (rank > 2) {
        logits = class_rows(logits);
        target = probabilities ? class_rows(target) : gd_reshape(target, 1, (int64_t[]){-1});
    }
    if (!logits || !target) return 0;
    gd_attr attr = {.i = {ignore_index, reduction}, .f = {label_smoothing}};
    gd_tensor loss = gd_record(GD_OP_cross_entropy, (gd_tensor[]){logits, target, weight}, 3, &attr, NULL);
    return !loss || reduction != 0 || rank == 2 ? loss : gd_reshape(loss, nkept, kept);
}

gd_tensor gd_cross_entropy(gd_tensor logits, gd_tensor target, gd_tensor weight, int64_t ignore_index, int reduction, double label_smoothing) {
    gd_start start = gd_here();
    return gd_or_return(start, cross_entropy(logits, target, weight, ignore_index, reduction, label_smoothing));
}

gd_tensor gd_mse_loss(gd_tensor x, gd_tensor y, int reduction) {
    if (reduction < 0 || reduction > 2) {
        gd_fail(GD_ERR_VALUE, "mse_loss: reduction must be none, mean or sum");
        return 0;
    }
    return GD_RECORD(mse_loss, &(gd_attr){.i = {reduction}}, x, y);
}

gd_tensor gd_lstm(gd_tensor x, gd_tensor h0, gd_tensor c0, gd_tensor w_ih, gd_tensor w_hh, gd_tensor b_ih, gd_tensor b_hh, gd_tensor lengths, int reverse,
                  int batch_first) {
    gd_tensor in[] = {x, h0, c0, w_ih, w_hh, b_ih, b_hh, lengths};
    return gd_record(GD_OP_lstm, in, 8, &(gd_attr){.i = {reverse != 0, batch_first != 0}}, NULL);
}

/* ---- Moving data -------------------------------------------------------------------------------------------------------- */

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
        gd_arena_return(start.arena, start.place);
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
    if (start.arena) gd_arena_return(start.arena, start.place);
    return count ? GD_RECORD(nonzero, &attr, a) : 0;
}
