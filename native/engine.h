/* engine.h - nodes, threads, ops and devices as the library's own files see them; arenas: arena.h, parameters: param.h. */
#ifndef GRADINO_ENGINE_H
#define GRADINO_ENGINE_H

#include <string.h>

#include "arena.h"

#pragma GCC visibility push(hidden)

enum gd_node_flag {
    GD_REQUIRES_GRAD = 1 << 0,
    GD_LEAF = 1 << 1,        /* not made by a recorded op */
    GD_PARAMETER = 1 << 2,   /* lives in the slabs; param is set */
    GD_RETAIN_GRAD = 1 << 3,
    GD_WEAK = 1 << 4,        /* made from a Python scalar: does not decide a result's dtype */
    GD_EXTERNAL = 1 << 5,    /* memory borrowed from the caller */
    GD_GRAD_BUFFER = 1 << 6, /* is the gradient or a moment of a leaf: its memory is used again for the next one */
    /* 1 << 7: GD_KEPT, in kept.h */
    GD_HOOKED = 1 << 8,      /* the caller wants to see its gradient on the way, */
    GD_LEAF_HOOKED = 1 << 9, /* or to know when .grad is complete: see call.c */
    GD_SEEN = 1 << 10,       /* others see its memory: views, exports */
    GD_REPLACED = 1 << 11,   /* an in-place write was recorded: `next` is the tensor from then on, see write.c, */
    GD_MOVED = 1 << 12,      /* in other memory; */
    GD_REBASED = 1 << 13     /* of a storage: tensors over it were replaced */
};

/* Bits of `work`, which backward changes: other threads may meanwhile read a shared node's flags. */
enum gd_node_work {
    GD_GIVEN = 1 << 0,   /* already somebody's gradient */
    GD_OWNED = 1 << 1,   /* `acc` belongs to this node alone, may be added to in place */
    GD_USEFUL = 1 << 2,  /* a wanted input is reachable from here */
    GD_LATER = 1 << 3,   /* a parameter that other gradients still read, to be updated at the end */
    GD_ENTERED = 1 << 4, /* its inputs are known or being discovered */
    GD_WRITTEN = 1 << 5, /* `acc` was written straight into the gradient buffer */
    GD_FREED = 1 << 6,   /* for good: a backward has consumed this node's graph */
    GD_GRAD_SET = 1 << 7,  /* .grad is there */
    GD_GRAD_SEEN = 1 << 8, /* .grad was handed out */
    GD_PASSING = 1 << 9    /* made during a backward: its memory is used again, see recycle.h */
};

enum { GD_SMALL_IN = 4 };
enum { GD_VERSION_BITS = 31 };
#define GD_TRACKED (1u << GD_VERSION_BITS)

/* One tensor: descriptor and graph node. `v` stands first: a node is a kernel's view. */
typedef struct gd_node {
    gd_view v;
    gd_tensor self, base;       /* base: the tensor that owns the storage (itself unless a view) */
    gd_tensor *in;              /* recorded inputs (in_small or arena memory), NULL when not recorded */
    uint32_t *in_version;       /* storage version of each input when it was read; GD_TRACKED where it required grad then */
    gd_tensor in_small[GD_SMALL_IN];
    uint32_t version_small[GD_SMALL_IN];
    gd_attr attr;
    struct gd_param *param;     /* parameters and other leaves that an optimizer updates */
    gd_tensor next;             /* what stands for it now, see GD_REPLACED */
    gd_tensor grad;             /* .grad, 0 when unset */
    gd_tensor acc;              /* during a backward: the gradient gathered so far */
    uint32_t version;           /* writes to the storage; of the base */
    uint32_t nin;
    uint32_t stamp, pending, capture; /* during a backward: its number, consumers to come (or holders), index of a wanted input + 1 */
    uint32_t own_version;       /* storage version when the op had written it */
    int16_t op;                 /* -1: none */
    uint16_t flags;
    uint16_t work;
    uint8_t nout, out_index;    /* outputs of the op, and which one this is */
} gd_node;

/* ---- Threads -------------------------------------------------------------------------------------- */
enum { GD_INHERIT = -1, GD_MAX_SCOPES = 64, GD_MAX_MODES = 256, GD_MESSAGE_BYTES = 1024, GD_SHAPE_TEXTS = 8 };
typedef struct gd_thread {
    gd_arena *active;
    struct gd_recycler *recycler; /* of the backward that runs, or NULL */
    struct gd_backward_run *run;  /* the innermost that runs, or NULL */
    bool raw;                     /* gradient rules run: a handle means the tensor as it was recorded */
    gd_tensor failed;             /* the node whose gradient rule failed last */
    bool grad_enabled, grad_base; /* now; outside every mode */
    uint8_t autocast;           /* dtype + 1 of what products take now, or 0 */
    bool autocast_cache;        /* casts of leaves are remembered */
    struct gd_cast_cache *casts; /* made at the first of them, or NULL */
    int nscopes, nsteps, nmodes;
    /* ids are negative from the moment they are abandoned, which another thread may do */
    struct { _Atomic int64_t id; gd_arena *arena; bool step; } scopes[GD_MAX_SCOPES];
    /* what a mode sets; GD_INHERIT: what stands outside of it holds on */
    struct { _Atomic int64_t id; int8_t grad, autocast; bool cache; } modes[GD_MAX_MODES];
    gd_arena *steps[GD_MAX_SCOPES]; /* step arenas of this thread, by nesting depth */
    gd_status last_status;
    char message[GD_MESSAGE_BYTES], warning[GD_MESSAGE_BYTES];
    char shape_text[GD_SHAPE_TEXTS][112]; /* of gd_text_shape, in turn */
    unsigned shape_next;
    int32_t number;                 /* the system's, for profiles; 0 until it was asked for */
    uint8_t device;                 /* where functions without tensor inputs make theirs, as in gd_view */
    int8_t cuda;                    /* the device that "cuda" means */
    uint8_t stream[GD_MAX_DEVICES]; /* the one in use on each, see device.c; 0: the device's own */
    struct gd_thread *prev, *next; /* in the list of all threads */
} gd_thread;

/* One pointer of static thread storage: fast to read, and a library loaded late finds room for it. */
extern _Thread_local gd_thread *gd_thread_self __attribute__((tls_model("initial-exec")));
gd_thread *gd_thread_start(void);
static inline gd_thread *gd_self(void) { return __builtin_expect(gd_thread_self != NULL, 1) ? gd_thread_self : gd_thread_start(); }

/* ---- Nodes ------------------------------------------------------------------------------------------- */
gd_node *gd_node_missing(gd_tensor h, const char *who); /* sets the error, returns NULL */

/* Without the lock: another thread may be adding nodes, or giving this one's place to another tensor. */
static inline gd_node *gd_node_peek(gd_tensor h) {
    gd_arena *a = &gd_arenas[(h >> GD_INDEX_BITS) & (GD_MAX_ARENAS - 1)];
    int64_t index = (int64_t)(h & (GD_MAX_NODES - 1));
    if (index >= __atomic_load_n(&a->node_count, __ATOMIC_ACQUIRE)) return NULL;
    gd_node *n = &a->nodes[index];
    return __atomic_load_n(&n->self, __ATOMIC_RELAXED) == h ? n : NULL;
}
/* Makes an absent input 0: one that is GD_ABSENT, or 0 while no error waits. Any other 0 is the result of a call that
 * failed, and fails again. */
static inline gd_status gd_optional(gd_tensor *t, const char *who) {
    if (__builtin_expect(*t > GD_ABSENT, 1)) return GD_OK;
    if (*t == 0 && gd_last_status() < 0) return gd_node_missing(0, who), gd_last_status();
    *t = 0;
    return GD_OK;
}
/* The node of a handle as it was recorded, or NULL with GD_ERR_STALE set. `who` names the op for the message. */
static inline gd_node *gd_node_recorded(gd_tensor h, const char *who) {
    gd_node *n = gd_node_peek(h);
    if (__builtin_expect(n == NULL, 0)) return gd_node_missing(h, who);
    if (n->base != h && __builtin_expect(gd_node_peek(n->base) == NULL, 0)) return gd_node_missing(n->base, who);
    return n;
}
/* What stands for a node after in-place writes that were recorded (write.c); NULL with an error set. */
gd_node *gd_node_current(gd_node *n, const char *who);
/* The node of a handle as it is now, or NULL with GD_ERR_STALE set. */
static inline gd_node *gd_node_of(gd_tensor h, const char *who) {
    gd_node *n = gd_node_peek(h);
    if (__builtin_expect(n == NULL, 0)) return gd_node_missing(h, who);
    unsigned flags = n->flags;
    if (n->base != h) {
        const gd_node *base = gd_node_peek(n->base);
        if (__builtin_expect(base == NULL, 0)) return gd_node_missing(n->base, who);
        flags |= base->flags;
    }
    return __builtin_expect(flags & (GD_REPLACED | GD_REBASED), 0) ? gd_node_current(n, who) : n;
}
static inline gd_arena *gd_arena_by_handle(gd_tensor h) { return &gd_arenas[(h >> GD_INDEX_BITS) & (GD_MAX_ARENAS - 1)]; }
static inline gd_node *gd_storage(gd_node *n) { return n->base == n->self ? n : gd_node_peek(n->base); }
static inline uint32_t gd_storage_version(gd_node *n) {
    gd_node *s = gd_storage(n);
    return s ? s->version : 0;
}
/* The node of input k if a gradient may go there, else NULL: one that was frozen when the op was recorded gets
 * none later on, and neither does one that is frozen now. */
static inline gd_node *gd_tracked_input(const gd_node *n, uint32_t k) {
    gd_node *in = n->in[k] && n->in_version[k] & GD_TRACKED ? gd_node_peek(n->in[k]) : NULL;
    return in && in->flags & GD_REQUIRES_GRAD ? in : NULL;
}
/* Whether input k's storage (of node `in`) is still as it was when the op read it. */
static inline bool gd_input_unchanged(const gd_node *n, uint32_t k, gd_node *in) {
    return ((gd_storage_version(in) ^ n->in_version[k]) & ~GD_TRACKED) == 0;
}
/* All but handle and view, as of a new leaf. */
static inline void gd_node_clear(gd_node *n) {
    n->in = NULL;
    n->param = NULL;
    n->grad = n->acc = n->next = 0;
    n->version = n->own_version = n->nin = n->stamp = n->capture = 0;
    n->op = -1;
    n->flags = GD_LEAF;
    n->work = 0;
    n->nout = 1;
    n->out_index = 0;
}
/* Makes old handles of a permanent node stale and gives it a new one. */
void gd_node_retag(gd_node *n);
/* The logical shape: the last `rank` of the four entries. */
static inline const int64_t *gd_logical_shape(const gd_view *v) { return v->shape + GD_DIMS - v->rank; }
static inline const char *gd_text_view(const gd_view *v) { return gd_text_shape(v->rank, gd_logical_shape(v)); }
const char *gd_dtype_name(int dtype);
static inline bool gd_is_float(int dtype) { return dtype <= GD_FLOAT64 || gd_is_half(dtype); }
/* Fills shape, strides (contiguous), rank, dtype, and the CPU as device; checks that the byte size fits. `who` names the op. */
gd_status gd_view_init(gd_view *v, int64_t rank, const int64_t *shape, int dtype, const char *who);
/* A contiguous view of the same shape, dtype and device, without memory. */
gd_view gd_view_like(const gd_view *v);
/* A new tensor in an arena, on like's device, contents undefined; NULL with an error set. */
gd_node *gd_node_new(gd_arena *a, const gd_view *like);
/* Bytes a view reaches, from `start` on; start is its first address where strides are negative too. */
int64_t gd_view_bytes(const gd_view *v, char **start);
/* Whether a tensor may be written in place: nobody's gradient would be lost or wrong. */
gd_status gd_check_writable(gd_node *n, const char *who);
/* Fails for a view of which several elements are one place in memory, which cannot be written to. */
gd_status gd_check_single(const gd_node *n, const char *who);
/* Whether the memory two views reach may be shared. */
bool gd_views_overlap(const gd_view *a, const gd_view *b);
/* Dimension of the four for a logical one that may be negative; < 0 with an error set. */
int64_t gd_dim(const gd_view *v, int64_t dim, const char *who);

/* ---- Ops ------------------------------------------------------------------------------------------------ */
enum gd_op_flag { GD_OP_VIEW = 1, GD_OP_EW = 2, GD_OP_INTERNAL = 4, GD_OP_OPTIONAL = 8 /* some inputs may be absent */, GD_OP_HALF = 16, GD_OP_LOWER = 32, GD_OP_FULL = 64 };
enum { GD_VARIADIC = -1, GD_SAVES_OUT = 1 << 16 /* the first output; << k: the k-th */ };

/* What a shape rule sees and fills. */
typedef struct gd_shape_call {
    const char *name;
    gd_node *const *in; /* NULL where absent */
    int nin;
    gd_attr *attr;      /* a rule may normalise attributes */
    void *dest;         /* where the caller wants the first output, or NULL */
    uint32_t placed;    /* bits of outputs whose memory the rule chose itself, within what dest stands for */
    gd_view out[GD_MAX_OUT];
    int nout;           /* preset to the op's */
    int64_t workspace;  /* bytes the kernel needs */
    int op;
} gd_shape_call;

struct gd_vjp;
typedef struct gd_op_row {
    const char *name, *vjp_name;
    gd_status (*shape)(gd_shape_call *c);
    gd_status (*vjp)(struct gd_vjp *v); /* NULL: no gradient */
    gd_kernel *kernel[3];               /* by gd_isa; NULL for views */
    uint32_t saves;
    int8_t nin, nout;
    uint8_t flags;
    bool has_avx512;
} gd_op_row;
extern const gd_op_row gd_ops[];
/* Nodes that no op of the table made have a row behind it. */
enum { GD_NODE_CUSTOM = GD_OPS, GD_NODE_OVERWRITE, GD_NODE_REGION, GD_NODE_TO, GD_NODE_KINDS };
extern const char *const gd_optim_names[];
typedef enum gd_optim_op {
#define OP(name, nin, nout, shape, vjp, saves, flags, kernels)
#define OPTIM(name, kernels) GD_OPTIM_##name,
#include "ops.def"
#undef OP
#undef OPTIM
} gd_optim_op;
gd_optim_kernel *gd_optim_kernel_now(gd_optim_op op);

/* Runs an op and records it when recording is on and an input requires grad. Returns the first output.
 * dest, if given, is memory for the first output (a gradient buffer of the right size). */
gd_tensor gd_record(int op, const gd_tensor *in, int64_t nin, const gd_attr *attr, void *dest);
#define GD_RECORD(op, attr, ...) \
    gd_record(GD_OP_##op, (gd_tensor[]){__VA_ARGS__}, (int64_t)(sizeof((gd_tensor[]){__VA_ARGS__}) / sizeof(gd_tensor)), attr, NULL)
/* Mixed precision (autocast.c): the tensor as the op takes it now, which is a cast or the tensor itself; 0 with an error set. */
gd_tensor gd_autocast_input(int op, gd_tensor in);
void gd_autocast_forget(gd_thread *t); /* the remembered casts */
void gd_autocast_end(gd_thread *t);    /* with its thread */
enum { GD_FEW_INPUTS = 16 }; /* lists of so many tensors stand on the stack, longer ones in the arena */
/* Bytes of the arena for the duration of a call (they stay there until the next reset); NULL with an error set. */
void *gd_scratch(gd_arena *a, int64_t bytes);
/* The dtype in which a number is made that op combines with a tensor of `dtype`. */
int gd_number_dtype(int op, int dtype);
/* Random numbers of an op: sets seed and offset in attr->i[6], i[7]; after a failure (result 0) gives them back. */
void gd_draw_counters(gd_attr *attr, int64_t count);
gd_tensor gd_drawn_counters(gd_tensor result, const gd_attr *attr, int64_t count);
/* Runs a kernel on views, without nodes. */
void gd_run(int op, const gd_view *const *in, int nin, gd_view *const *out, int nout, const gd_attr *attr);
/* bfloat16 and float16 (half.c): adds to c->workspace what conversions need, and sets *own to the kernel's own part;
 * a kernel on views of which some are such; and an update of parameters that are. */
void gd_half_workspace(int op, gd_shape_call *c, int64_t *own);
void gd_half_run(int op, const gd_args *a, int64_t own_workspace);
void gd_half_optim(gd_optim_op op, const gd_optim_args *a);
/* A copy of src's elements into dst (same shape or broadcast), casting. No versions, no graph. */
void gd_copy_view(gd_view *dst, const gd_view *src);
/* The same where both may share memory: through a copy. */
gd_status gd_copy_overlapping(gd_view *dst, const gd_view *src);

/* ---- Autograd ------------------------------------------------------------------------------------------ */
typedef struct gd_vjp {
    gd_node *node;                /* the op's first output */
    gd_tensor self;
    gd_tensor g[GD_MAX_OUT];      /* gradient of each output; 0: none */
    bool create_graph;
    struct gd_backward_run *run;
} gd_vjp;
bool gd_vjp_needs(const gd_vjp *v, int k);
/* Hands gradient g to input k. g 0 means that making it failed. */
gd_status gd_vjp_give(gd_vjp *v, int k, gd_tensor g);
/* Memory of input k's gradient if an op on a and b (or a alone) may write it directly, else NULL. *accumulate: it
 * must add to what is there; NULL if it cannot. What the op makes must then be given to input k. */
void *gd_vjp_dest(gd_vjp *v, int k, gd_tensor a, gd_tensor b, bool *accumulate);
/* Adds g to the slice (start, step per dimension of the four) of input 0's gradient, in place. */
gd_status gd_vjp_give_slice(gd_vjp *v, gd_tensor g, const int64_t *start, const int64_t *step);
/* A tensor like n for gradients of parts of it, contents undefined. Where all of n's gradient comes to lie in it, nothing is copied. */
gd_tensor gd_vjp_like(gd_vjp *v, const gd_node *n);

/* What ends with the first `nodes` nodes: objects of the caller that belong to later ones are dropped. Lock held. */
void gd_objects_drop(gd_arena *a, int64_t nodes);
gd_status gd_vjp_custom(gd_vjp *v);
gd_status gd_vjp_overwrite(gd_vjp *v);
gd_status gd_vjp_region(gd_vjp *v);
gd_status gd_vjp_to(gd_vjp *v);
/* Looking for NaN in gradients, and noting where ops are called: bits. */
enum { GD_ANOMALY_TRACE = 1, GD_ANOMALY_NAN = 2 };
extern atomic_int gd_anomaly;
void gd_anomaly_made(gd_tensor t);
bool gd_has_nan(const gd_view *v);
/* Keeps a backward from starting, unless one runs. */
bool gd_backward_try_lock(void);
void gd_backward_unlock(void);

/* ---- Devices (device.c, transfer.c). Numbered as in gd_view; functions on views take those of one device or several ---- */
extern const gd_cuda *gd_cuda_now; /* NULL until a device was asked for, and where there is none */
const char *gd_text_device(int device);    /* "cpu", "cuda:0"; */
const char *gd_text_on_device(int device); /* " on cuda:0" */
gd_status gd_device_need(int device, const char *who); /* opens it; an error that says what is missing */
gd_status gd_region_open(gd_region *r, int device, const char *name);
void gd_device_used(gd_region *r);    /* something is made there, in this thread's stream */
void gd_device_lowered(gd_region *r);
gd_status gd_device_span_commit(gd_span *s, int64_t bytes, const char *what);
gd_status gd_device_span_reserve(gd_span *s, int device, int64_t bytes, const char *what);
void gd_device_span_release(gd_span *s);
const gd_stream *gd_device_stream(int device); /* this thread's, of an open device, made the current one */
/* The kernel of a device, with workspace from the active arena. A launch that fails is reported by the next call that can. */
void gd_device_run(int op, gd_args *a, int device);
gd_status gd_device_ready(int op, int device); /* whether there is a kernel, and none has failed before */
void gd_device_optim(gd_optim_op op, gd_optim_args *a, int device);
void gd_device_fill(int device, void *at, int byte, int64_t bytes);
/* Waits for this thread's stream; what a kernel met, such as an index out of range, is an error. */
gd_status gd_device_wait(int device);
gd_status gd_device_read(int device, void *to, const void *from, int64_t bytes);  /* waits */
gd_status gd_device_write(int device, void *to, const void *from, int64_t bytes); /* `from` may be used again at once */
/* dst = src (same shape or broadcast, casting) where one of them is on a device. wait false: the host goes on where memory allows it. */
gd_status gd_transfer(gd_view *dst, const gd_view *src, bool wait);
/* The device that an op on these runs on, or < 0 with an error that names two; NULLs are left out. */
int gd_device_of_inputs(int op, gd_node *const *in, int64_t nin);
/* Instead of a number beside tensors on a device: the same there. NULL with an error set. */
gd_node *gd_device_number(gd_node *number, int device);

#pragma GCC visibility pop
#endif
