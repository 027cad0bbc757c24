/* gradino.h - the public interface of libgradino: arenas, tensors, ops, autograd, optimizers.
 * C11, no dependencies. The region between the cffi marks is also the cffi cdef of the Python package. */
#ifndef GRADINO_H
#define GRADINO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/* cffi:begin */

/* ---- Conventions ----------------------------------------------------------------------------
 * Functions that make a tensor return its handle, or 0 on failure; other functions that can fail
 * return a gd_status. gd_last_error() then says what was wrong, in this thread. Passing handle 0
 * (the result of a failed call) fails again with the first message, so calls may be nested and
 * checked once. Where an input may be absent (a bias, a gradient) GD_ABSENT says that it is, and so does
 * 0 while no error waits: after one that you have dealt with, call gd_clear_error(). Sizes are int64_t. Dimensions are counted from 0 or, negative, from the end. */

typedef int32_t gd_status;
enum {
    GD_OK = 0,
    GD_WARNING = 1,       /* done, and gd_take_warning() has something to say */
    GD_ERR = -1,          /* a rule of the library was broken */
    GD_ERR_SHAPE = -2,
    GD_ERR_DTYPE = -3,
    GD_ERR_ARENA = -4,
    GD_ERR_STALE = -5,    /* a tensor whose arena was reset */
    GD_ERR_MEMORY = -6,
    GD_ERR_DEVICE = -7,
    GD_ERR_VALUE = -8,    /* an argument outside its range */
    GD_ERR_INDEX = -9,    /* an index or label outside its range */
    GD_ERR_ZERO_DIVISION = -10,
    GD_ERR_CALLBACK = -11 /* the caller's own code failed, see gd_set_callback */
};

typedef enum gd_dtype {
    GD_FLOAT32 = 0, GD_FLOAT64 = 1, GD_INT64 = 2, GD_INT32 = 3, GD_BOOL = 4, GD_BFLOAT16 = 5, GD_FLOAT16 = 6, GD_DTYPES = 7
} gd_dtype;

/* A tensor: a generation-tagged index, not a pointer. 0 is no tensor. Copy freely, nothing to free. */
typedef uint64_t gd_tensor;
enum { GD_ABSENT = 1 }; /* no tensor on purpose, where one may be left out */
typedef struct gd_arena gd_arena;
typedef struct gd_export gd_export;
typedef struct gd_optimizer gd_optimizer;

/* Attributes of an op call; their meaning stands beside each op in ops.def. */
typedef struct gd_attr {
    int64_t i[13];
    double f[2];
} gd_attr;

typedef struct gd_arena_stats {
    int64_t reserved, committed, used, high_water; /* bytes */
    int64_t allocations, resets;
} gd_arena_stats;

typedef struct gd_tensor_info {
    void *data;
    int64_t shape[4]; /* the first `rank` entries are the logical shape */
    int64_t strides[4]; /* in elements */
    int64_t numel;
    int32_t rank, dtype;
    int32_t requires_grad, is_leaf, is_parameter, retains_grad, has_grad, contiguous, has_node;
    int32_t is_grad_buffer; /* memory of a gradient or moment, which the next one is written to */
    int32_t is_external;    /* memory borrowed with gd_from_external */
    uint32_t version;
    int32_t op;             /* the op that made it, or -1 */
    int32_t out_index;      /* which of its outputs */
    gd_tensor base;         /* the tensor that owns the memory: itself, unless a view */
    int32_t device;         /* whose address `data` is: 0: the CPU, else 1 + the number of the CUDA device */
} gd_tensor_info;

/* ---- Errors ---------------------------------------------------------------------------------- */
const char *gd_last_error(void);       /* message of this thread's last failure; never NULL */
gd_status gd_last_status(void);        /* its code; GD_OK after gd_clear_error() */
void gd_clear_error(void);
const char *gd_take_warning(void);     /* a pending warning, or NULL; forgets it */
const char *gd_status_name(gd_status status);

/* ---- Arenas ---------------------------------------------------------------------------------- */
/* Reserves `reserve` bytes of address space (0: the default) and commits `commit` of them. */
gd_arena *gd_arena_open(int64_t reserve, int64_t commit, const char *name);
gd_status gd_arena_close(gd_arena *arena);    /* frees it; live exports keep their pages */
gd_status gd_arena_reset(gd_arena *arena);    /* forgets every tensor in it, keeps its pages */
gd_tensor gd_arena_mark(gd_arena *arena);     /* a place to rewind to; 0 on failure */
gd_status gd_arena_rewind(gd_arena *arena, gd_tensor mark);
gd_arena_stats gd_arena_get_stats(const gd_arena *arena);
gd_arena_stats gd_arena_get_device_stats(const gd_arena *arena, int device); /* of its memory on cuda:<device> */
const char *gd_arena_name(const gd_arena *arena);
int gd_arena_number(const gd_arena *arena);      /* by which profiles know it */
gd_arena *gd_arena_permanent(void);           /* holds parameters and whatever no scope claims */
gd_arena *gd_arena_active(void);              /* this thread's */
gd_arena *gd_arena_of(gd_tensor t);
int64_t gd_arena_list(gd_arena **out, int64_t capacity); /* all that are open; returns how many */
/* Scopes nest per thread. A scope id is > 0; an id that is no longer open is ignored by exit. */
int64_t gd_scope_enter(gd_arena *arena);
int64_t gd_scope_enter_step(void);            /* a step arena of this thread; reset at exit */
gd_status gd_scope_exit(int64_t scope);       /* GD_ERR_ARENA if an inner scope is still open: then it ends with that one */
gd_status gd_scope_unwind(int64_t scope);     /* for leaving by an exception: inner scopes are left, too */
void gd_scope_abandon(int64_t scope);         /* from any thread: nobody will leave it; it ends when no inner one is open */
int gd_scope_is_open(int64_t scope);          /* in whatever thread */
gd_arena *gd_scope_arena(int64_t scope);
int64_t gd_scope_find(const gd_arena *arena); /* this thread's innermost scope that gd_scope_enter opened for the arena, or 0 */
gd_tensor gd_keep(gd_tensor t, int64_t scope);/* a copy in the arena that encloses the innermost scope (0), or `scope` */
/* While an export lives, the bytes of its tensor are not used again, whatever happens to the arena. */
gd_export *gd_export_open(gd_tensor t);
void gd_export_close(gd_export *e);
/* Tests: the nth commit or reserve from now (1 = next) fails, once; 0 turns it off. Returns calls since. */
int64_t gd_test_fail_allocation(int64_t nth);
/* Tests: from how many bytes on a backward uses the memory of gradients again that it is done with. Returns what was. */
int64_t gd_test_recycling(int64_t least);

/* ---- Tensors --------------------------------------------------------------------------------- */
gd_status gd_info(gd_tensor t, gd_tensor_info *out);
int64_t gd_shape(gd_tensor t, int64_t *shape);        /* returns the rank, < 0 on failure */
gd_status gd_check(gd_tensor t);                      /* GD_OK while t may be used */
int gd_dtype_of(gd_tensor t);                         /* < 0 on failure */
/* The one element as a number. On failure NaN or 0, and gd_last_status() is not GD_OK (it is cleared first). */
double gd_item_float(gd_tensor t);
int64_t gd_item_int(gd_tensor t);
gd_tensor gd_empty(int64_t rank, const int64_t *shape, int dtype);
gd_tensor gd_full(int64_t rank, const int64_t *shape, int dtype, double value, int64_t ivalue);
gd_tensor gd_from_data(int64_t rank, const int64_t *shape, int dtype, const void *data); /* copies */
gd_tensor gd_from_external(int64_t rank, const int64_t *shape, const int64_t *strides, int dtype, void *data); /* borrows */
/* The floating point dtype that integers become where floats are needed; float32 unless set. */
int gd_default_dtype(void);
gd_status gd_set_default_dtype(int dtype);
gd_tensor gd_scalar(double value, int64_t ivalue, int dtype);  /* rank 0, weak in type promotion */
gd_tensor gd_parameter(gd_tensor value, int requires_grad);    /* copied into the permanent slabs */
gd_status gd_parameter_free(gd_tensor parameter);              /* at once: a graph that reads it becomes stale */
void gd_parameter_abandon(gd_tensor parameter); /* frees it once no graph can need it; anything else is ignored */
gd_status gd_item(gd_tensor t, double *value, int64_t *ivalue);/* the one element: value of a float tensor, ivalue of others */
gd_status gd_copy_out(gd_tensor t, void *data, int64_t bytes); /* contiguous copy of the elements */
gd_status gd_copy_in(gd_tensor t, gd_tensor source);           /* t[...] = source: casts, broadcasts */
gd_status gd_fill_in(gd_tensor t, double value, int64_t ivalue);
/* At an int64 index along dim, as the op scatter; mode: 0 overwrite, 1 add, 2 multiply, 3 larger, 4 smaller. */
gd_status gd_scatter_in(gd_tensor t, int64_t dim, gd_tensor index, gd_tensor source, int mode);
/* Writes that are recorded: the tensor, its base and all views of it go on with the new history. gd_write_begin fails where t may not
 * be written; bit 0 says that nobody else sees its memory, bit 1 that it has a history. gd_write puts `value` there: cast
 * and broadcast; computed: it was computed from t, and may be its new memory. It returns the handle of t from now on. */
int gd_write_begin(gd_tensor t);
gd_tensor gd_write(gd_tensor t, gd_tensor value, int computed);
gd_tensor gd_current(gd_tensor t);                             /* t's newest handle that lives as long */
gd_tensor gd_contiguous(gd_tensor t);
gd_status gd_set_requires_grad(gd_tensor t, int on);

/* ---- Devices ----------------------------------------------------------------------------------- */
/* The CPU is device 0, cuda:k is device 1 + k. The library's CUDA part is found when a device is first asked for: the file `path`;
 * NULL: that which the environment variable GRADINO_CUDA_LIBRARY names (for tests), or libgradino_cuda.so beside this library. */
gd_status gd_cuda_load(const char *path);
int gd_cuda_device_count(void);                                /* 0 where there is no CUDA part, driver or device */
int gd_cuda_is_emulated(void);
typedef struct gd_cuda_info {
    char name[128];
    int32_t major, minor, multiprocessors, emulated;
    int64_t memory, memory_free;
} gd_cuda_info;
gd_status gd_cuda_describe(int device, gd_cuda_info *out);
void gd_cuda_memory(int device, int64_t *used, int64_t *most, int64_t *held); /* bytes of tensors and parameters there */
void gd_cuda_forget_peak(int device);
/* Where this thread's functions without tensor inputs (gd_empty, gd_full, gd_uniform, ...) make their tensor; at first the CPU. */
gd_status gd_set_device(int device);
int gd_get_device(void);
int gd_device_of(gd_tensor t);                                 /* < 0 on failure */
/* The tensor itself, or a copy on another device, recorded. non_blocking: the host does not wait, where its memory is pinned. */
gd_tensor gd_to_device(gd_tensor t, int device, int non_blocking);
gd_tensor gd_from_device(int device, int64_t rank, const int64_t *shape, const int64_t *strides, int dtype, void *data); /* borrows */
gd_tensor gd_parameter_to(gd_tensor parameter, int device);    /* the same parameter there: a new handle; the old one is freed by the caller */
gd_status gd_device_synchronize(int device);                   /* waits for all streams; what kernels met is an error */
void *gd_pin(int64_t bytes);                                   /* host memory that devices read while the host goes on */
void gd_unpin(void *memory);
/* Streams, by number; 0 is the device's own. Each thread has one in use on each device. */
int gd_stream_new(int device, int priority);
gd_status gd_stream_free(int device, int stream);
int gd_stream_use(int device, int stream);                     /* returns the one before */
int gd_stream_current(int device);
uint64_t gd_stream_handle(int device, int stream);             /* the driver's */
gd_status gd_stream_wait(int device, int stream);              /* the host waits */
int gd_stream_done(int device, int stream);
gd_status gd_stream_await(int device, int stream, int first_device, int first); /* the stream waits for what `first` was given */
gd_status gd_stream_meet(int device, uint64_t handle, int theirs_waits); /* the thread's stream and one of another library */
void *gd_event_new(int device, int timed);
gd_status gd_event_free(void *event);
gd_status gd_event_record(void *event, int device, int stream);
gd_status gd_event_await(void *event, int device, int stream);
gd_status gd_event_wait(void *event, int device);
int gd_event_done(void *event, int device);
double gd_event_elapsed(void *first, void *second, int device); /* milliseconds; < 0 on failure */

/* ---- Ops -------------------------------------------------------------------------------------- */
int gd_op_count(void);
int gd_op_find(const char *name);                              /* -1 if unknown */
const char *gd_op_name(int op);
typedef struct gd_op_info {
    const char *name, *vjp;
    int32_t nin, nout, is_view, is_elementwise, is_internal, differentiable;
    int32_t has_kernel, has_avx512;
} gd_op_info;
gd_status gd_op_describe(int op, gd_op_info *out);
/* Any op: inputs may be GD_ABSENT where ops.def allows an absent one. attr may be NULL. The second and further
 * outputs are read with gd_output(first, index). */
gd_tensor gd_call(int op, const gd_tensor *inputs, int64_t count, const gd_attr *attr);
gd_tensor gd_output(gd_tensor first, int index);
gd_tensor gd_unary(int op, gd_tensor a);
gd_tensor gd_binary(int op, gd_tensor a, gd_tensor b);         /* promotes dtypes */
/* kind: GD_BOOL, GD_INT64 or GD_FLOAT32 for a Python bool, int or float; reversed: scalar on the left. */
gd_tensor gd_binary_scalar(int op, gd_tensor a, double value, int64_t ivalue, int kind, int reversed);
gd_tensor gd_where(gd_tensor cond, gd_tensor a, gd_tensor b);
gd_tensor gd_clamp(gd_tensor a, double min, double max);       /* NaN: no bound */
gd_tensor gd_softplus(gd_tensor a, double beta, double threshold);
gd_tensor gd_leaky_relu(gd_tensor a, double slope);
gd_tensor gd_elu(gd_tensor a, double alpha, double scale, int scaled_input); /* scale (x > 0 ? x : alpha (exp(x) - 1)); exp(x / alpha) if scaled_input */
gd_tensor gd_hardtanh(gd_tensor a, double min, double max);                  /* clamp, without gradient at the bounds */
gd_tensor gd_cast(gd_tensor a, int dtype);
gd_tensor gd_reduce(int op, gd_tensor a, const int64_t *dims, int64_t ndims, int keepdim, double correction); /* ndims 0: all */
gd_tensor gd_softmax(int op, gd_tensor a, int64_t dim);
/* Pooling over the last dims (1 or 2) dimensions. size: kernel, stride, padding, dilation, each of two numbers, (H, W); of one
 * dimension the second. gd_output(y, 1): indices, where wanted or where y is recorded. */
gd_tensor gd_max_pool(gd_tensor x, int dims, const int64_t size[8], int ceil_mode, int want_indices);
gd_tensor gd_avg_pool(gd_tensor x, int dims, const int64_t size[6], int ceil_mode, int count_include_pad, int64_t divisor); /* divisor 0: of the window */
gd_tensor gd_adaptive_pool(gd_tensor x, int dims, const int64_t out[2], int largest, int want_indices); /* out -1: as the input */
gd_tensor gd_max_unpool(gd_tensor x, gd_tensor indices, int dims, const int64_t out[2]);
/* mode 0 nearest, 1 nearest-exact, 2 linear; scale 0: that of the sizes. */
gd_tensor gd_resize(gd_tensor x, int dims, const int64_t out[2], int mode, int align_corners, const double scale[2]);
gd_tensor gd_pixel_shuffle(gd_tensor x, int64_t factor, int inverse);
gd_tensor gd_matmul(gd_tensor a, gd_tensor b);
gd_tensor gd_linear(gd_tensor x, gd_tensor weight, gd_tensor bias);
/* dims: 1 or 2 dimensions of space; x (N, C, ...) or (C, ...); one number per dimension of space. `after`: padding at the end. */
gd_tensor gd_conv_nd(int dims, gd_tensor x, gd_tensor weight, gd_tensor bias, const int64_t *stride, const int64_t *padding, const int64_t *after,
                     const int64_t *dilation, int64_t groups);
gd_tensor gd_conv_transpose_nd(int dims, gd_tensor x, gd_tensor weight, gd_tensor bias, const int64_t *stride, const int64_t *padding,
                               const int64_t *output_padding, const int64_t *dilation, int64_t groups);
gd_tensor gd_im2col(gd_tensor x, const int64_t *kernel, const int64_t *dilation, const int64_t *padding, const int64_t *stride);
gd_tensor gd_col2im(gd_tensor x, const int64_t *size, const int64_t *kernel, const int64_t *dilation, const int64_t *padding, const int64_t *stride);
/* Over the last `rank` dimensions, whose sizes are `shape`; weight and bias of that shape, or GD_ABSENT. */
gd_tensor gd_layer_norm(gd_tensor x, int64_t rank, const int64_t *shape, gd_tensor weight, gd_tensor bias, double eps);
gd_tensor gd_rms_norm(gd_tensor x, int64_t rank, const int64_t *shape, gd_tensor weight, double eps); /* eps NaN: the dtype's epsilon */
/* x (N, C, ...). Training: the statistics of x, with which running_mean and running_var (C), where given, are updated in place:
 * momentum new + (1 - momentum) old; num_batches, an int64 scalar, is counted up, and with momentum NaN new counts 1/num_batches. */
gd_tensor gd_batch_norm(gd_tensor x, gd_tensor weight, gd_tensor bias, gd_tensor running_mean, gd_tensor running_var, gd_tensor num_batches,
                        int training, double momentum, double eps);
gd_tensor gd_group_norm(gd_tensor x, int64_t groups, gd_tensor weight, gd_tensor bias, double eps);
/* use_input_stats 0: batch norm with the running statistics, which are updated otherwise, with the mean over the batch. */
gd_tensor gd_instance_norm(gd_tensor x, gd_tensor weight, gd_tensor bias, gd_tensor running_mean, gd_tensor running_var, int use_input_stats,
                           double momentum, double eps);
gd_tensor gd_cross_entropy(gd_tensor logits, gd_tensor target, gd_tensor weight, int64_t ignore_index, int reduction, double label_smoothing);
gd_tensor gd_nll_loss(gd_tensor input, gd_tensor target, gd_tensor weight, int64_t ignore_index, int reduction);
gd_tensor gd_mse_loss(gd_tensor x, gd_tensor y, int reduction);
gd_tensor gd_smooth_l1_loss(gd_tensor x, gd_tensor y, int reduction, double beta, int huber); /* huber: times beta */
gd_tensor gd_binary_cross_entropy(gd_tensor x, gd_tensor y, int reduction, int logits);       /* of probabilities x, or of logits */
gd_tensor gd_dropout(gd_tensor x, double p, int training);
/* softmax(scale q k^T + mask) v: q (..., H, T, D), k (..., Hk, S, D), v (..., Hk, S, E), of two to four dimensions; H is a
 * multiple of Hk. mask: bool (true: may attend) or float (added), or GD_ABSENT. before, after: how many keys on either side of
 * its own place a query sees, -1: all; at_end: the last query stands at the last key, else the first at the first. */
gd_tensor gd_attention(gd_tensor q, gd_tensor k, gd_tensor v, gd_tensor mask, int64_t before, int64_t after, int at_end, double scale, double dropout_p);
/* Turns pairs of elements of x (..., T, D) by angles whose cos and sin are (T, R) or broadcast so, R <= D / 2. */
gd_tensor gd_rotary(gd_tensor x, gd_tensor cos, gd_tensor sin, int neighbours);
/* One direction of one layer; absent tensors are GD_ABSENT. Outputs 0..2: y, h_n, c_n. */
gd_tensor gd_lstm(gd_tensor x, gd_tensor h0, gd_tensor c0, gd_tensor w_ih, gd_tensor w_hh, gd_tensor b_ih, gd_tensor b_hh, gd_tensor lengths, int reverse, int batch_first);
gd_tensor gd_reshape(gd_tensor a, int64_t rank, const int64_t *shape);   /* one entry may be -1; copies where strides do not allow a view */
gd_tensor gd_view_as(gd_tensor a, int64_t rank, const int64_t *shape);   /* fails instead of copying */
gd_tensor gd_permute(gd_tensor a, int64_t rank, const int64_t *dims);
gd_tensor gd_transpose(gd_tensor a, int64_t dim0, int64_t dim1);
gd_tensor gd_expand(gd_tensor a, int64_t rank, const int64_t *shape);
gd_tensor gd_squeeze(gd_tensor a, int64_t dim, int all);
gd_tensor gd_unsqueeze(gd_tensor a, int64_t dim);
gd_tensor gd_slice(gd_tensor a, int64_t dim, int64_t start, int64_t stop, int64_t step); /* clips like Python; step >= 1 */
gd_tensor gd_select(gd_tensor a, int64_t dim, int64_t index);
gd_tensor gd_detach(gd_tensor a);
gd_tensor gd_cat(const gd_tensor *tensors, int64_t count, int64_t dim);
gd_tensor gd_stack(const gd_tensor *tensors, int64_t count, int64_t dim);
gd_tensor gd_index_select(gd_tensor a, int64_t dim, gd_tensor index);   /* negative indices count from the end */
gd_tensor gd_gather(gd_tensor a, int64_t dim, gd_tensor index);
gd_tensor gd_one_hot(gd_tensor a, int64_t classes);                      /* classes -1: largest + 1 */
gd_tensor gd_nonzero(gd_tensor a);
gd_tensor gd_arange(double start, double step, int64_t istart, int64_t istep, int64_t count, int dtype);
gd_tensor gd_eye(int64_t n, int64_t m, int dtype);
gd_tensor gd_uniform(int64_t rank, const int64_t *shape, int dtype, double low, double high);
gd_tensor gd_normal(int64_t rank, const int64_t *shape, int dtype, double mean, double std);
gd_tensor gd_randint(int64_t rank, const int64_t *shape, int64_t low, int64_t high);
void gd_manual_seed(uint64_t seed);
void gd_get_rng_state(uint64_t state[2]);                                /* seed and position */
void gd_set_rng_state(const uint64_t state[2]);

/* ---- Autograd ----------------------------------------------------------------------------------- */
/* Recording of the graph, per thread: a stack of modes. Exit removes the mode wherever it stands; with unwind,
 * for leaving by an exception, the newer ones, too. */
/* Mixed precision: until the mode is left, products take float32 tensors as `dtype` (GD_BFLOAT16, GD_FLOAT16; -1: off; -2: as it is), and
 * losses take those as float32. With `cache` the cast of a leaf serves until the outermost such mode ends. Left by
 * gd_grad_mode_exit. */
int64_t gd_autocast_enter(int dtype, int cache);
int gd_autocast_dtype(void);                                              /* -1: off */
int gd_autocast_cache(void);
gd_tensor gd_autocast_full(gd_tensor t);                                  /* for ops made of others: a half as float32, while autocast is on */
int64_t gd_grad_mode_enter(int enabled);
int gd_grad_mode_exit(int64_t id, int unwind);                            /* 1, or 0 if it is no open mode of this thread */
void gd_grad_mode_abandon(int64_t id);                                    /* from any thread: nobody will leave it */
void gd_grad_mode_set(int enabled);                                       /* changes the innermost mode that is entered */
int gd_grad_enabled(void);
gd_status gd_backward(gd_tensor root, gd_tensor gradient, int retain_graph, int create_graph, gd_optimizer *optimizer);
/* Gradients of the sum of outputs with respect to inputs, without touching .grad. An entry of
 * gradients may be GD_ABSENT (or the whole array NULL): ones for a single element. out[i] is 0 where an input is unused. */
gd_status gd_grad_of(const gd_tensor *outputs, const gd_tensor *gradients, int64_t noutputs, const gd_tensor *inputs, int64_t ninputs,
                     int retain_graph, int create_graph, gd_tensor *out);
/* The same of several roots at once; ninputs >= 0: only .grad of the inputs is filled. */
gd_status gd_backward_into(const gd_tensor *roots, const gd_tensor *gradients, int64_t count, const gd_tensor *inputs, int64_t ninputs, int retain_graph,
                           int create_graph, gd_optimizer *optimizer);
/* gd_grad_of of a graph whose inputs stand in another one: goes no further than these, and hands out what it computed, not
 * copies. Only the first `wanted` of them are computed. In the code of a backward, .grad of a leaf to which only this node
 * still contributes is filled at once; out is 0 there. */
gd_status gd_grad_within(const gd_tensor *outputs, const gd_tensor *gradients, int64_t noutputs, const gd_tensor *inputs, int64_t ninputs, int64_t wanted,
                         int create_graph, gd_tensor *out);
gd_status gd_retain_grad(gd_tensor t);
gd_tensor gd_get_grad(gd_tensor t);                                       /* 0 where there is none (no error is set) */
gd_status gd_set_grad(gd_tensor t, gd_tensor grad);                       /* copies; grad 0 clears */
/* which: 0 value, 1 gradient, 2 previous gradient (momentum), 3 and 4 Adam's moments, 5 amsgrad's largest; 0 until used. */
gd_tensor gd_parameter_state(gd_tensor parameter, int which);
gd_status gd_zero_grad(const gd_tensor *parameters, int64_t count);

/* ---- The caller's own code in a graph --------------------------------------------------------------- */
/* BACKWARD of a node that gd_custom made: in are the gradients of its outputs (0: none); out is to be filled with those of its
 * inputs, of their shapes and dtypes, or 0; at first an entry is 1 where the gradient is wanted, else 0.
 * HOOK: in[0] is the complete gradient of the tensor, another one may be put into out[0]. LEAF: its .grad is complete.
 * MADE: while looking for anomalies, an op has made the tensor. A callback that fails returns GD_ERR_CALLBACK. */
enum { GD_CALL_BACKWARD = 0, GD_CALL_HOOK = 1, GD_CALL_LEAF = 2, GD_CALL_MADE = 3 };
typedef gd_status (*gd_callback)(int kind, int64_t object, gd_tensor tensor, const gd_tensor *in, int64_t nin, gd_tensor *out, int64_t nout, int create_graph);
void gd_set_callback(gd_callback callback);            /* for all threads; the one that runs backward calls it */
/* Makes `outputs`, computed without recording, results of one node whose gradient the callback computes. differentiable[k]:
 * whether output k has one. once: bit 0: a backward uses the graph up; 1: the callback keeps no gradients. out: the new tensors, over the same memory. */
gd_status gd_custom(int64_t object, const gd_tensor *inputs, int64_t ninputs, const gd_tensor *outputs, int64_t noutputs, const uint8_t *differentiable, int once,
                    gd_tensor *out);
/* Calls the callback for t's gradient (GD_CALL_HOOK), or .grad of a leaf (GD_CALL_LEAF); on 0: no longer. */
gd_status gd_hook(gd_tensor t, int kind, int on);
/* An object of the caller lives as long as t: then it stands in the list of those that are dropped. */
gd_status gd_attach(gd_tensor t, int64_t object);
int64_t gd_object_of(gd_tensor t);                     /* what gd_custom was called with for the node of t, or 0 */
int gd_has_dropped(void);
int64_t gd_take_dropped(int64_t *objects, int64_t capacity);
/* Inputs of the op that made t: 0 where no gradient goes. Returns how many there are; out gets at most `capacity`. */
int64_t gd_graph_inputs(gd_tensor t, gd_tensor *out, int64_t capacity);
/* Tensors outside of the arena that the graph of outputs begins at, some perhaps twice. Returns how many there are. */
int64_t gd_graph_outside(const gd_tensor *outputs, int64_t noutputs, const gd_arena *inside, gd_tensor *out, int64_t capacity);
gd_tensor gd_copy_to(gd_tensor t, gd_arena *arena);    /* a copy without history */
/* Bits: 1 tells the callback of every recorded op, 2 lets a backward fail where a gradient has a NaN. Returns what was. */
int gd_set_anomaly(int bits);
gd_tensor gd_failed_node(void);                        /* whose gradient failed in this thread's last backward, or 0 */

/* ---- Optimizers ------------------------------------------------------------------------------- */
typedef enum gd_optimizer_kind {
    GD_SGD = 0, GD_ADAM = 1, GD_ADAMW = 2, GD_RMSPROP = 3, GD_ADAGRAD = 4, GD_ADADELTA = 5, GD_ADAMAX = 6, GD_NADAM = 7, GD_RADAM = 8, GD_LION = 9
} gd_optimizer_kind;
/* RMSprop's alpha and Adadelta's rho are beta2. */
typedef struct gd_hyper {
    double lr, beta1, beta2, eps, weight_decay, momentum, dampening;
    double decay;                /* Adagrad's lr_decay, NAdam's momentum_decay */
    double initial;              /* Adagrad's sum of squares before the first update */
    int32_t nesterov, maximize, amsgrad;
    int32_t centered, decoupled; /* RMSprop's; NAdam's and RAdam's weight decay as AdamW's */
} gd_hyper;
gd_optimizer *gd_optimizer_open(gd_optimizer_kind kind);
void gd_optimizer_close(gd_optimizer *o);
gd_status gd_optimizer_add_group(gd_optimizer *o, const gd_tensor *parameters, int64_t count);
gd_status gd_optimizer_set_hyper(gd_optimizer *o, int64_t group, const gd_hyper *hyper);
gd_status gd_optimizer_step(gd_optimizer *o);          /* parameters without a gradient are left alone */
gd_status gd_optimizer_zero_grad(gd_optimizer *o);
int64_t gd_optimizer_get_step(gd_optimizer *o, gd_tensor parameter);      /* updates done so far */
/* Copies into moment `which` (as gd_parameter_state counts them, from 2) of a parameter. */
gd_status gd_optimizer_set_state(gd_optimizer *o, gd_tensor parameter, int which, gd_tensor value);
gd_status gd_optimizer_set_step(gd_optimizer *o, gd_tensor parameter, int64_t step); /* 0 also forgets its moments */
double gd_optimizer_get_factor(gd_optimizer *o, gd_tensor parameter);     /* NAdam: the product of its momenta so far; NaN for no parameter of o */
gd_status gd_optimizer_set_factor(gd_optimizer *o, gd_tensor parameter, double factor);

/* ---- Machine ------------------------------------------------------------------------------------ */
gd_status gd_set_num_threads(int n);
int gd_get_num_threads(void);
int gd_default_num_threads(void);                      /* affinity, cgroup quota, GRADINO_NUM_THREADS */
gd_status gd_set_isa(const char *name);                /* "portable", "avx2", "avx512"; NULL or "": the best */
const char *gd_get_isa(void);
const char *gd_supported_isas(void);                   /* space-separated, weakest first */
const char *gd_cpu_features(void);
const char *gd_version(void);
gd_status gd_init_status(void);                        /* what reading the environment found; GD_OK, GD_WARNING or an error */
typedef struct gd_machine {
    int64_t l1d, l2, l3;               /* bytes of cache: two of a core, and the last one, which cores share */
    int32_t online, affinity, granted; /* processors: of the system, of the affinity mask, of the cgroup's quota; 0: not limited by it */
    int32_t requested;                 /* threads that GRADINO_NUM_THREADS or OMP_NUM_THREADS asks for; 0: neither does */
} gd_machine;
void gd_machine_describe(gd_machine *out);
/* What the machine can do at most, for tools: runs one loop on all threads in use, with the kernel set in use. Returns the
 * work done, which took *seconds: operations, bytes, or calls; 0 if the processor cannot; < 0 on failure. n: rounds of some
 * 30 operations on vectors, or float32 elements of a, b and c (a is 64-byte aligned), or calls. */
enum {
    GD_PROBE_FLOAT32 = 0,  /* fused multiply-adds in registers */
    GD_PROBE_FLOAT64 = 1,
    GD_PROBE_BFLOAT16 = 2, /* dot products of bfloat16 pairs, added up in float32 */
    GD_PROBE_COPY = 3,     /* a = b: a read and a write count */
    GD_PROBE_TRIAD = 4,    /* a = b + 3 c: two reads and a write */
    GD_PROBE_UPDATE = 5,   /* a = a + 3 b: the same, in place */
    GD_PROBE_READ = 6,     /* the sum of b */
    GD_PROBE_REGION = 7    /* parallel regions in which all threads meet, and nothing else */
};
double gd_probe(int kind, int64_t n, void *a, const void *b, const void *c, double *seconds);

/* ---- Profile ------------------------------------------------------------------------------------ */
/* What ran while a profile was on, in a ring of fixed size that keeps the newest events. */
enum { GD_PROFILE_RESET = -1, GD_PROFILE_MARK = -2, GD_PROFILE_REWIND = -3, GD_PROFILE_RETURN = -4, GD_PROFILE_UPDATE = -16 };
typedef struct gd_profile_event {
    int64_t start, stop;         /* nanoseconds of gd_profile_clock() */
    int64_t bytes, elements;     /* read and written; of the largest tensor */
    int64_t shapes[4][4];        /* of the first three inputs and of the result */
    int64_t used, made, workspace; /* bytes in use in the arena, workspace included; that the results hold; of workspace */
    int32_t op;                  /* an op, one of the above, or GD_PROFILE_UPDATE - k for optimizer kernel k */
    int32_t gradient_of, arena, thread; /* the op whose gradient it is a part of, or -1; number of an arena, or -1 */
    uint8_t ranks[4], dtypes[4]; /* 0: no such tensor; else the number of dimensions + 1 */
} gd_profile_event;
gd_status gd_profile_start(int64_t capacity);          /* forgets what the last one noted */
int64_t gd_profile_stop(void);                         /* events since the start, of which the newest are kept */
int64_t gd_profile_read(gd_profile_event *out, int64_t capacity); /* oldest first; returns how many are kept */
const char *gd_profile_name(int op);
int64_t gd_profile_clock(void);

/* cffi:end */

#pragma GCC visibility pop

/* Op numbers: GD_OP_add, GD_OP_exp, ... */
enum {
#define OP(name, nin, nout, shape, vjp, saves, flags, kernels) GD_OP_##name,
#define OPTIM(name, kernels)
#include "ops.def"
#undef OP
#undef OPTIM
    GD_OPS
};

/* One function per elementwise op that needs no attributes, with dtype promotion: gd_exp(a), gd_add(a, b), ...
 * The shape rule of an op's row tells how many tensors it takes; a rule that is not listed makes no function. */
#define GD_TAKES_unary_num , 1
#define GD_TAKES_unary_float , 1
#define GD_TAKES_unary_bool , 1
#define GD_TAKES_binary , 2
#define GD_TAKES_binary_float , 2
#define GD_TAKES_binary_int_div , 2
#define GD_TAKES_binary_int , 2
#define GD_TAKES_pow , 2
#define GD_TAKES_compare , 2
#define GD_FUNCTION_0(name)
#define GD_FUNCTION_1(name) static inline gd_tensor gd_##name(gd_tensor a) { return gd_unary(GD_OP_##name, a); }
#define GD_FUNCTION_2(name) static inline gd_tensor gd_##name(gd_tensor a, gd_tensor b) { return gd_binary(GD_OP_##name, a, b); }
#define GD_FUNCTION_(rule, count, ...) GD_FUNCTION_##count
#define GD_FUNCTION(...) GD_FUNCTION_(__VA_ARGS__)
#define OP(name, nin, nout, shape, vjp, saves, flags, kernels) GD_FUNCTION(GD_TAKES_##shape, 0, 0)(name)
#define OPTIM(name, kernels)
#include "ops.def"
#undef OP
#undef OPTIM

#ifdef __cplusplus
}
#endif
#endif
