/* api_activation.c - public entry points of activations with attributes. */
#include "engine.h"

static gd_tensor curve(int op, gd_tensor a, gd_attr attr) {
    gd_node *n = gd_node_of(a, gd_ops[op].name);
    if (!n) return 0;
    return gd_record(op, &a, 1, &attr, NULL);
}

gd_tensor gd_leaky_relu(gd_tensor a, double slope) { return curve(GD_OP_leaky_relu, a, (gd_attr){.f = {slope}}); }

gd_tensor gd_elu(gd_tensor a, double alpha, double scale, int scaled_input) {
    if (scaled_input && alpha == 0) {
        gd_fail(GD_ERR_ZERO_DIVISION, "elu: alpha is 0, by which the input is to be divided");
        return 0;
    }
    return curve(GD_OP_elu, a, (gd_attr){.i = {scaled_input != 0}, .f = {alpha, scale}});
}

gd_tensor gd_hardtanh(gd_tensor a, double min, double max) {
    if (!(min <= max)) {
        gd_fail(GD_ERR_VALUE, "hardtanh: min_val %g must not be greater than max_val %g", min, max);
        return 0;
    }
    return curve(GD_OP_hardtanh, a, (gd_attr){.f = {min, max}});
}
