/* shape_gru.c - shape rules of a GRU's step. */
#include "rules.h"
#include "shape.h"

static gd_status need_rows(const gd_shape_call *c, int k, const char *what, int64_t batch, int64_t columns) {
    const gd_view *v = gd_in(c, k);
    if (v->rank == 2 && v->shape[2] == batch && v->shape[3] == columns) return GD_OK;
    return gd_fail(GD_ERR_SHAPE, "%s: %s has shape %s, must be (%lld, %lld)", c->name, what, gd_text_view(v), (long long)batch, (long long)columns);
}

/* (gi, gh, h) -> h', gates */
gd_status gd_shape_gru_cell(gd_shape_call *c) {
    const gd_view *h = gd_in(c, 2);
    GD_TRY(gd_shape_need_float(c, 2));
    GD_TRY(gd_shape_need_same_dtype(c, 2, 0));
    GD_TRY(gd_shape_need_same_dtype(c, 2, 1));
    if (h->rank != 2) return gd_fail(GD_ERR_SHAPE, "gru_cell: the state has shape %s, must be (B, H)", gd_text_view(h));
    for (int k = 0; k < 2; k++) GD_TRY(need_rows(c, k, k ? "the state's part" : "the input's part", h->shape[2], 3 * h->shape[3]));
    const int64_t gates[2] = {h->shape[2], 3 * h->shape[3]};
    GD_TRY(gd_shape_like(c, 0, h, h->dtype));
    return gd_shape_out(c, 1, 2, gates, gd_dtype_inside(h->dtype));
}

/* (g, gates, gh, h) -> dgi, dgh, dh */
gd_status gd_shape_gru_cell_bwd(gd_shape_call *c) {
    const gd_view *h = gd_in(c, 3);
    GD_TRY(gd_shape_need_float(c, 3));
    GD_TRY(gd_shape_need_same_dtype(c, 3, 0));
    GD_TRY(gd_shape_need_same_dtype(c, 3, 2));
    if (h->rank != 2 || gd_in(c, 1)->dtype != gd_dtype_inside(h->dtype) || !gd_is_contiguous(gd_in(c, 1)))
        return gd_fail(GD_ERR_SHAPE, "gru_cell_bwd: its inputs do not belong together");
    GD_TRY(need_rows(c, 0, "the gradient", h->shape[2], h->shape[3]));
    for (int k = 1; k < 3; k++) GD_TRY(need_rows(c, k, "a part", h->shape[2], 3 * h->shape[3]));
    const int64_t gates[2] = {h->shape[2], 3 * h->shape[3]};
    GD_TRY(gd_shape_out(c, 0, 2, gates, h->dtype));
    GD_TRY(gd_shape_out(c, 1, 2, gates, h->dtype));
    return gd_shape_like(c, 2, h, h->dtype);
}
