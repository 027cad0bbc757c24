/* shape_pointwise.c - shape rules of ops on the bits of integers. */
#include "rules.h"
#include "shape.h"

gd_status gd_shape_binary_int(gd_shape_call *c) {
    for (int k = 0; k < 2; k++)
        if (gd_is_float(gd_in(c, k)->dtype))
            return gd_fail(GD_ERR_DTYPE, "%s: input %d is %s, but must be an integer or bool", c->name, k, gd_dtype_name(gd_in(c, k)->dtype));
    const bool bits = c->op == GD_OP_bitwise_and || c->op == GD_OP_bitwise_or || c->op == GD_OP_bitwise_xor;
    if (!bits && gd_in(c, 0)->dtype == GD_BOOL) return gd_fail(GD_ERR_DTYPE, "%s: not for bool tensors", c->name);
    return gd_shape_binary(c);
}
