/* api_loss.c - public entry points of losses. */
#include "engine.h"

/* (N, C, ...) -> (N * ..., C) */
static gd_tensor class_rows(gd_tensor x, const char *who) {
    gd_node *n = gd_node_of(x, who);
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

/* What the rows of a loss over classes come from. */
typedef struct class_loss {
    gd_tensor x, target;                /* (N, C), and (N) or (N, C) */
    int64_t rank, kept[GD_DIMS], nkept; /* of the input; its shape without the classes */
} class_loss;

/* Inputs and targets become the matrices of the op. Classes are the second dimension, or the only one of a single row. */
static gd_status as_rows(class_loss *l, const char *who, gd_tensor input, gd_tensor target) {
    gd_node *x = gd_node_of(input, who), *t = x ? gd_node_of(target, who) : NULL;
    if (!t) return gd_last_status();
    const int64_t *shape = gd_logical_shape(&x->v), *targets = gd_logical_shape(&t->v), rank = x->v.rank;
    bool probabilities = gd_is_float(t->v.dtype);
    if (rank < 1 || t->v.rank != (probabilities ? rank : rank - 1))
        return gd_fail(GD_ERR_SHAPE, "%s: logits are %s, target is %s: class targets lack the class dimension of the logits, probabilities have their shape", who,
                       gd_text_view(&x->v), gd_text_view(&t->v));
    *l = (class_loss){.rank = rank};
    for (int64_t d = 0; d < rank; d++)
        if (d != (rank == 1 ? 0 : 1)) l->kept[l->nkept++] = shape[d];
    if (rank > 2 && memcmp(targets, probabilities ? shape : l->kept, sizeof *l->kept * (size_t)t->v.rank) != 0)
        return gd_fail(GD_ERR_SHAPE, "%s: logits are %s, target is %s: they must agree outside the class dimension (the second), probabilities there too", who,
                       gd_text_view(&x->v), gd_text_view(&t->v));
    if (t->v.dtype == GD_INT32) target = gd_cast(target, GD_INT64);
    if (rank == 1) {
        input = gd_unsqueeze(input, 0);
        target = gd_unsqueeze(target, 0);
    } else if (rank > 2) {
        input = class_rows(input, who);
        target = probabilities ? class_rows(target, who) : gd_reshape(target, 1, (int64_t[]){-1});
    }
    l->x = input;
    l->target = target;
    return input && target ? GD_OK : gd_last_status();
}

/* Losses per row take the shape without classes again. */
static gd_tensor from_rows(const class_loss *l, gd_tensor loss, int reduction) {
    return !loss || reduction != 0 || l->rank == 2 ? loss : gd_reshape(loss, l->nkept, l->kept);
}

gd_tensor gd_cross_entropy(gd_tensor logits, gd_tensor target, gd_tensor weight, int64_t ignore_index, int reduction, double label_smoothing) {
    GD_TRY_TENSOR(gd_optional(&weight, "cross_entropy"));
    gd_start start = gd_here();
    class_loss l;
    if (as_rows(&l, "cross_entropy", logits, target) < 0) return gd_or_return(start, 0);
    gd_attr attr = {.i = {ignore_index, reduction}, .f = {label_smoothing}};
    return gd_or_return(start, from_rows(&l, gd_record(GD_OP_cross_entropy, (gd_tensor[]){l.x, l.target, weight}, 3, &attr, NULL), reduction));
}

gd_tensor gd_nll_loss(gd_tensor input, gd_tensor target, gd_tensor weight, int64_t ignore_index, int reduction) {
    GD_TRY_TENSOR(gd_optional(&weight, "nll_loss"));
    gd_start start = gd_here();
    class_loss l;
    if (as_rows(&l, "nll_loss", input, target) < 0) return gd_or_return(start, 0);
    gd_attr attr = {.i = {ignore_index, reduction}};
    return gd_or_return(start, from_rows(&l, gd_record(GD_OP_nll_loss, (gd_tensor[]){l.x, l.target, weight}, 3, &attr, NULL), reduction));
}

gd_tensor gd_mse_loss(gd_tensor x, gd_tensor y, int reduction) { return GD_RECORD(mse_loss, &(gd_attr){.i = {reduction}}, x, y); }

gd_tensor gd_smooth_l1_loss(gd_tensor x, gd_tensor y, int reduction, double beta, int huber) {
    if (!(beta >= 0)) {
        gd_fail(GD_ERR_VALUE, "smooth_l1_loss: beta is %g, must be at least 0", beta);
        return 0;
    }
    return GD_RECORD(smooth_l1_loss, &((gd_attr){.i = {reduction, huber != 0}, .f = {beta}}), x, y);
}

gd_tensor gd_binary_cross_entropy(gd_tensor x, gd_tensor y, int reduction, int logits) {
    const gd_attr attr = {.i = {reduction}};
    return logits ? GD_RECORD(binary_cross_entropy_with_logits, &attr, x, y) : GD_RECORD(binary_cross_entropy, &attr, x, y);
}
