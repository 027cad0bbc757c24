/* api_scatter.c - writing at an index in place. */
#include "engine.h"
#include "scattering.h"

static const char WRITE[] = "in-place write";

/* The tensor itself, or a copy where a write to n would change it on the way. */
static gd_tensor apart(const gd_node *n, const gd_node *other) {
    return gd_views_overlap(&n->v, &other->v) ? GD_RECORD(copy, NULL, other->self) : other->self;
}

gd_status gd_scatter_in(gd_tensor t, int64_t dim, gd_tensor index, gd_tensor source, int mode) {
    gd_node *n = gd_node_of(t, WRITE), *i = n ? gd_node_of(index, WRITE) : NULL, *s = i ? gd_node_of(source, WRITE) : NULL;
    if (!s) return gd_last_status();
    GD_TRY(gd_check_writable(n, WRITE));
    if (gd_self()->grad_enabled && (s->flags & GD_REQUIRES_GRAD))
        return gd_fail(GD_ERR, "in-place write: the value requires grad, but the write is not recorded: its gradient would be lost. "
                               "Use scatter or index_put, or write value.detach()");
    if (gd_is_half(n->v.dtype)) return gd_fail(GD_ERR_DTYPE, "in-place write: not at an index of %s; use scatter and copy", gd_dtype_name(n->v.dtype));
    gd_start start = gd_here();
    index = apart(n, i), source = index ? apart(n, s) : 0;
    if (!gd_or_return(start, source)) return gd_last_status();
    gd_node *in[] = {n, gd_node_of(index, WRITE), gd_node_of(source, WRITE)};
    gd_attr attr = {.i = {gd_dim(&n->v, dim, WRITE), mode, 1}};
    gd_shape_call c = {.name = "scatter", .in = in, .nin = 3, .attr = &attr, .nout = 1, .op = GD_OP_scatter};
    const gd_view *from[] = {&n->v, &in[1]->v, &in[2]->v};
    gd_view to = n->v, *out[] = {&to};
    const int device = gd_device_of_inputs(GD_OP_scatter, in, 3);
    gd_status status = attr.i[0] < 0 || device < 0 ? gd_last_status() : device ? gd_device_ready(GD_OP_scatter, device) : GD_OK;
    if (status >= 0) status = gd_ops[GD_OP_scatter].shape(&c);
    if (status >= 0) {
        gd_run(GD_OP_scatter, from, 3, out, 1, &attr);
        gd_storage(n)->version++;
    }
    if (start.arena) gd_arena_return(start.arena, &start.place);
    return status < 0 ? status : GD_OK;
}
