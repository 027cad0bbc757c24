/* ops.c - the op table as data, made from ops.def. */
#include "cpu.h"
#include "rules.h"

#define gd_vjp_none NULL

enum {
    I0 = 1 << 0, I1 = 1 << 1, I2 = 1 << 2, I3 = 1 << 3, I4 = 1 << 4, I7 = 1 << 7,
    O = GD_SAVES_OUT, O1 = O << 1, O2 = O << 2, O3 = O << 3, O4 = O << 4,
    VIEW = GD_OP_VIEW, EW = GD_OP_EW, INTERNAL = GD_OP_INTERNAL, OPTIONAL = GD_OP_OPTIONAL, HALF = GD_OP_HALF,
    LOWER = GD_OP_LOWER, FULL = GD_OP_FULL, VARIADIC = GD_VARIADIC
};

#if GD_X86
#define KERNELS_P(op) {gd_##op##_portable, gd_##op##_avx2, gd_##op##_avx2}
#define KERNELS_PV(op) {gd_##op##_portable, gd_##op##_avx2, gd_##op##_avx512}
#else
#define KERNELS_P(op) {gd_##op##_portable}
#define KERNELS_PV(op) {gd_##op##_portable}
#endif
#define KERNELS_N(op) {NULL}
#define IS_PV_N false
#define IS_PV_P false
#define IS_PV_PV true

const gd_op_row gd_ops[] = {
#define OP(name_, nin_, nout_, shape_, vjp_, saves_, flags_, kernels_)                                             \
    {.name = #name_, .vjp_name = #vjp_, .shape = gd_shape_##shape_, .vjp = gd_vjp_##vjp_, .kernel = KERNELS_##kernels_(name_), \
     .saves = saves_, .nin = nin_, .nout = nout_, .flags = flags_, .has_avx512 = IS_PV_##kernels_},
#define OPTIM(name, kernels)
#include "ops.def"
#undef OP
#undef OPTIM
    [GD_NODE_CUSTOM] = {.name = "function", .vjp_name = "custom", .vjp = gd_vjp_custom, .nin = VARIADIC, .nout = 1, .flags = INTERNAL},
    [GD_NODE_OVERWRITE] = {.name = "write", .vjp_name = "overwrite", .vjp = gd_vjp_overwrite, .nin = 2, .nout = 1, .flags = INTERNAL},
    [GD_NODE_TO] = {.name = "to", .vjp_name = "to", .vjp = gd_vjp_to, .nin = 1, .nout = 1, .flags = INTERNAL},
    [GD_NODE_REGION] = {.name = "region", .vjp_name = "region", .vjp = gd_vjp_region, .nin = 1, .nout = 1, .flags = INTERNAL},
};

static gd_optim_kernel *const optim_kernels[][3] = {
#define OP(name, nin, nout, shape, vjp, saves, flags, kernels)
#define OPTIM(name, kernels) KERNELS_##kernels(name),
#include "ops.def"
#undef OP
#undef OPTIM
};

const char *const gd_optim_names[] = {
#define OP(name, nin, nout, shape, vjp, saves, flags, kernels)
#define OPTIM(name, kernels) #name,
#include "ops.def"
#undef OP
#undef OPTIM
};

gd_optim_kernel *gd_optim_kernel_now(gd_optim_op op) { return optim_kernels[op][gd_current_isa()]; }

int gd_op_count(void) { return GD_OPS; }

const char *gd_op_name(int op) { return op >= 0 && op < GD_NODE_KINDS ? gd_ops[op].name : "none"; }

int gd_op_find(const char *name) {
    for (int op = 0; op < GD_OPS; op++)
        if (strcmp(gd_ops[op].name, name) == 0) return op;
    gd_fail(GD_ERR_VALUE, "no op is named '%s'", name);
    return -1;
}

gd_status gd_op_describe(int op, gd_op_info *out) {
    if (op < 0 || op >= GD_OPS) return gd_fail(GD_ERR_VALUE, "op %d: there are %d", op, GD_OPS);
    const gd_op_row *row = &gd_ops[op];
    *out = (gd_op_info){.name = row->name, .vjp = row->vjp_name, .nin = row->nin, .nout = row->nout,
                        .is_view = (row->flags & VIEW) != 0, .is_elementwise = (row->flags & EW) != 0, .is_internal = (row->flags & INTERNAL) != 0,
                        .differentiable = row->vjp != NULL, .has_kernel = row->kernel[0] != NULL, .has_avx512 = row->has_avx512};
    return GD_OK;
}
