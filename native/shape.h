/* shape.h - small helpers for shape rules. */
#ifndef GRADINO_SHAPE_H
#define GRADINO_SHAPE_H

#include "engine.h"

#pragma GCC visibility push(hidden)

/* Output k has this logical shape and dtype. */
gd_status gd_shape_out(gd_shape_call *c, int k, int64_t rank, const int64_t *shape, int dtype);
/* Output k is shaped like v, contiguous. */
gd_status gd_shape_like(gd_shape_call *c, int k, const gd_view *v, int dtype);
/* Broadcast of the shapes of inputs 0..count-1 into output 0. */
gd_status gd_shape_broadcast(gd_shape_call *c, int first, int count, int dtype);
gd_status gd_shape_need_float(const gd_shape_call *c, int k);
gd_status gd_shape_need_same_dtype(const gd_shape_call *c, int i, int j);
gd_status gd_shape_need_int64(const gd_shape_call *c, int k);
/* Every element of an int64 tensor in [low, high); `ignore` is allowed too. Names the first that is not. */
gd_status gd_shape_check_range(const gd_shape_call *c, const gd_view *v, int64_t low, int64_t high, int64_t ignore, const char *what);
/* Attribute i[k] is a dimension of input 0, counted among the four. */
gd_status gd_shape_need_dim(const gd_shape_call *c, int k);
static inline bool gd_same_shape(const gd_view *a, const gd_view *b) { return memcmp(a->shape, b->shape, sizeof a->shape) == 0; }
static inline const gd_view *gd_in(const gd_shape_call *c, int k) { return &c->in[k]->v; }

#pragma GCC visibility pop
#endif
