/* rules.h - the prototype of every shape rule and vjp rule, from the op table: a missing rule is a link
 * error, one without a row a -Wmissing-prototypes warning. A rule that several rows share is declared
 * several times, which C allows. */
#ifndef GRADINO_RULES_H
#define GRADINO_RULES_H

#include "engine.h"

#pragma GCC visibility push(hidden)
#define OPTIM(name, kernels)
#define OP(name, nin, nout, shape, vjp, saves, flags, kernels) gd_status gd_shape_##shape(gd_shape_call *c);
#include "ops.def"
#undef OP
#define OP(name, nin, nout, shape, vjp, saves, flags, kernels) gd_status gd_vjp_##vjp(gd_vjp *v);
#include "ops.def"
#undef OP
#undef OPTIM
#pragma GCC visibility pop

#endif
