/* vjp_gru.c - gradients of a GRU's step. */
#include "vjp.h"

/* in: gi gh h; out: h' gates */
RULE(gru_cell) {
    if (v->g[1]) return gd_fail(GD_ERR, "gru_cell: only the state has a gradient, not the gates saved for backward");
    if (v->create_graph)
        return gd_fail(GD_ERR, "gru_cell: its second derivative is not available; build the cell from linear, sigmoid and tanh for create_graph=True");
    gd_tensor dgi = GD_RECORD(gru_cell_bwd, NULL, G, gd_output(Y, 1), B, C);
    if (!dgi) return gd_last_status();
    GIVE(0, dgi);
    GIVE(1, gd_output(dgi, 1));
    GIVE(2, gd_output(dgi, 2));
    return GD_OK;
}
