/* table.cu - the kernels of the device by op, made from ops.def. The names are weak: what no .cu file defines is NULL. */
#include "interface.h"

extern "C" {
#define OP(name, nin, nout, shape, vjp, saves, flags, kernels) \
    __attribute__((weak)) gd_kernel gd_##name##_cuda;           \
    __attribute__((weak)) gd_cuda_workspace gd_##name##_cuda_workspace;
#define OPTIM(name, kernels) __attribute__((weak)) gd_optim_kernel gd_##name##_cuda;
#include "../ops.def"
#undef OP
#undef OPTIM

extern gd_kernel *const gd_cuda_kernels[];
extern gd_cuda_workspace *const gd_cuda_workspaces[];
extern gd_optim_kernel *const gd_cuda_optims[];
}

gd_kernel *const gd_cuda_kernels[] = {
#define OP(name, nin, nout, shape, vjp, saves, flags, kernels) gd_##name##_cuda,
#define OPTIM(name, kernels)
#include "../ops.def"
#undef OP
#undef OPTIM
};

gd_cuda_workspace *const gd_cuda_workspaces[] = {
#define OP(name, nin, nout, shape, vjp, saves, flags, kernels) gd_##name##_cuda_workspace,
#define OPTIM(name, kernels)
#include "../ops.def"
#undef OP
#undef OPTIM
};

gd_optim_kernel *const gd_cuda_optims[] = {
#define OP(name, nin, nout, shape, vjp, saves, flags, kernels)
#define OPTIM(name, kernels) gd_##name##_cuda,
#include "../ops.def"
#undef OP
#undef OPTIM
};
