/* optim.c - optimizers: which parameters, which settings, how many updates; the arithmetic is in the
 * optimizer kernels. Neighbours in the slab that are at the same step are updated as one run. */
#include "engine.h"
#include "param.h"
#include "profile.h"

#include <math.h>
#include <stdlib.h>

typedef struct entry {
    gd_tensor parameter;
    int64_t step;
    float mu_product; /* NAdam: the product of the momenta, in float32 as PyTorch has it */
    bool has_moments;
} entry;
typedef struct group { gd_hyper hyper; entry *entries; int64_t count; } group;
struct gd_optimizer {
    gd_optimizer_kind kind;
    group *groups;
    int64_t count;
};

static const gd_hyper DEFAULTS = {.lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};

gd_optimizer *gd_optimizer_open(gd_optimizer_kind kind) {
    if (kind < GD_SGD || kind > GD_LION) {
        gd_fail(GD_ERR_VALUE, "optimizer: no kind %d", (int)kind);
        return NULL;
    }
    gd_optimizer *o = gd_allocation_fails() ? NULL : calloc(1, sizeof *o);
    if (!o) gd_fail(GD_ERR_MEMORY, "optimizer: no memory");
    else o->kind = kind;
    return o;
}

static gd_status check_optimizer(const gd_optimizer *o) {
    return o ? GD_OK : gd_fail(gd_last_status() < 0 ? gd_last_status() : GD_ERR_VALUE, "optimizer: there is none (opening it failed)");
}

/* Whoever has recorded one of the moments as an input is told that it changed. */
static void moments_changed(const gd_param *p) {
    for (int r = 2; r < GD_STATES; r++) {
        gd_node *s = p->state[r] ? gd_node_peek(p->state[r]) : NULL;
        if (s) s->version++;
    }
}

static void clear(int device, void *at, int64_t bytes) {
    if (device) gd_device_fill(device, at, 0, bytes);
    else memset(at, 0, (size_t)bytes);
}

static void forget_moments(gd_param *p) {
    moments_changed(p);
    for (int r = 2; r < GD_REGIONS; r++)
        if (p->used >> r & 1) clear(p->device, p->ptr[r], p->bytes);
    if (p->max_exp_avg_sq) clear(p->device, p->max_exp_avg_sq, p->bytes);
    p->used &= 3;
}

void gd_optimizer_close(gd_optimizer *o) {
    if (!o) return;
    for (int64_t g = 0; g < o->count; g++) {
        for (int64_t i = 0; i < o->groups[g].count; i++) {
            gd_node *n = gd_node_peek(o->groups[g].entries[i].parameter);
            if (n && n->param && n->param->owner == o) {
                n->param->owner = NULL;
                forget_moments(n->param);
            }
        }
        free(o->groups[g].entries);
    }
    free(o->groups);
    free(o);
}

static entry *find_entry(const gd_optimizer *o, gd_tensor parameter, group **in) {
    const gd_node *n = gd_node_peek(parameter);
    const gd_param *p = n ? n->param : NULL;
    if (p && p->group < o->count && p->index < o->groups[p->group].count && o->groups[p->group].entries[p->index].parameter == parameter) {
        if (in) *in = &o->groups[p->group];
        return &o->groups[p->group].entries[p->index];
    }
    for (int64_t g = 0; g < o->count; g++)
        for (int64_t i = 0; i < o->groups[g].count; i++)
            if (o->groups[g].entries[i].parameter == parameter) {
                if (in) *in = &o->groups[g];
                return &o->groups[g].entries[i];
            }
    return NULL;
}

bool gd_optimizer_has(const gd_optimizer *o, gd_tensor parameter) { return find_entry(o, parameter, NULL) != NULL; }

gd_status gd_optimizer_add_group(gd_optimizer *o, const gd_tensor *parameters, int64_t count) {
    GD_TRY(check_optimizer(o));
    if (count < 0) return gd_fail(GD_ERR_VALUE, "optimizer: %lld parameters", (long long)count);
    for (int64_t i = 0; i < count; i++) {
        gd_node *n = gd_node_of(parameters[i], "optimizer");
        if (!n) return gd_last_status();
        for (int64_t j = 0; j < i; j++)
            if (parameters[j] == parameters[i]) return gd_fail(GD_ERR_VALUE, "optimizer: the same parameter (shape %s) stands twice in one group", gd_text_view(&n->v));
        if (gd_optimizer_has(o, parameters[i])) return gd_fail(GD_ERR_VALUE, "optimizer: the same parameter (shape %s) stands in two groups", gd_text_view(&n->v));
    }
    for (int64_t i = 0; i < count; i++) GD_TRY(gd_param_adopt(gd_node_peek(parameters[i])));
    group *groups = gd_allocation_fails() ? NULL : realloc(o->groups, sizeof *groups * (size_t)(o->count + 1));
    if (groups) o->groups = groups;
    entry *entries = groups && !gd_allocation_fails() ? calloc((size_t)count + 1, sizeof *entries) : NULL;
    if (!entries) return gd_fail(GD_ERR_MEMORY, "optimizer: no memory for %lld parameters", (long long)count);
    for (int64_t i = 0; i < count; i++) {
        gd_param *p = gd_node_peek(parameters[i])->param;
        entries[i].parameter = parameters[i];
        entries[i].mu_product = 1;
        p->group = o->count;
        p->index = i;
    }
    o->groups[o->count++] = (group){DEFAULTS, entries, count};
    return GD_OK;
}

gd_status gd_optimizer_set_hyper(gd_optimizer *o, int64_t g, const gd_hyper *hyper) {
    GD_TRY(check_optimizer(o));
    if (g < 0 || g >= o->count) return gd_fail(GD_ERR_VALUE, "optimizer: no group %lld, there are %lld", (long long)g, (long long)o->count);
    o->groups[g].hyper = *hyper;
    return GD_OK;
}

/* Bits of the regions an optimizer keeps state in. */
static uint8_t regions_used(const gd_optimizer *o, const gd_hyper *h) {
    switch (o->kind) {
    case GD_SGD: return h->momentum != 0 ? 1 << 2 : 0;
    case GD_RMSPROP: return (uint8_t)(1 << 4 | (h->momentum > 0 ? 1 << 2 : 0) | (h->centered ? 1 << 3 : 0));
    case GD_ADAGRAD: return 1 << 4;
    case GD_LION: return 1 << 3;
    case GD_ADAM: case GD_ADAMW: return (uint8_t)(1 << 3 | 1 << 4 | (h->amsgrad ? 1 << GD_MAX_SQUARE : 0));
    default: return 1 << 3 | 1 << 4;
    }
}
static bool has_state(const gd_optimizer *o, const gd_hyper *h) { return regions_used(o, h) != 0; }

/* Moments belong to the optimizer that used them last. A new one starts from zero; an old one whose
 * moments were taken over must not go on with somebody else's. */
static gd_status check_owner(const gd_optimizer *o, const gd_node *n, const entry *e) {
    if (!e->has_moments || n->param->owner == o) return GD_OK;
    return gd_fail(GD_ERR, "optimizer: the moments of a parameter of shape %s were taken over by another optimizer; use one at a time", gd_text_view(&n->v));
}

static gd_status claim(const gd_optimizer *o, const gd_hyper *h, gd_node *n, entry *e) {
    gd_param *p = n->param;
    if (!has_state(o, h) || p->owner == o) return GD_OK;
    GD_TRY(check_owner(o, n, e));
    forget_moments(p);
    p->owner = o;
    e->has_moments = true;
    return GD_OK;
}

static gd_status prepare(const gd_optimizer *o, const gd_hyper *h, gd_node *n, entry *e) {
    GD_TRY(claim(o, h, n, e));
    return regions_used(o, h) >> GD_MAX_SQUARE & 1 ? gd_param_amsgrad(n->param) : GD_OK;
}

/* NAdam's momentum of an update. */
static double nadam_momentum(const gd_hyper *h, int64_t step) { return h->beta1 * (1 - 0.5 * pow(0.96, (double)step * h->decay)); }

/* What else an update needs, from its number (from 1) and what the entry remembers. */
static void set_rates(const gd_optimizer *o, const gd_hyper *h, int64_t step, double mu_product, gd_optim_args *a) {
    const double t = (double)step;
    a->bias_correction1 = 1 - pow(h->beta1, t);
    a->bias_correction2 = 1 - pow(h->beta2, t);
    if (o->kind == GD_ADAGRAD) a->rate = h->lr / (1 + (t - 1) * h->decay);
    if (o->kind == GD_NADAM) {
        const double mu = nadam_momentum(h, step), next = nadam_momentum(h, step + 1);
        a->rate = -h->lr * (1 - mu) / (1 - mu_product);
        a->mean_rate = -h->lr * next / (1 - mu_product * next);
    }
    if (o->kind == GD_RADAM) {
        const double most = 2 / (1 - h->beta2) - 1, now = most - 2 * t * pow(h->beta2, t) / a->bias_correction2;
        a->rate = now > 5 ? sqrt((now - 4) * (now - 2) * most / ((most - 4) * (most - 2) * now)) : 0;
    }
}

/* Updates `bytes` of memory from parameter p on. step: number of this update, from 1. */
static void update(const gd_optimizer *o, const gd_hyper *h, const gd_param *p, const void *grad, int64_t bytes, int64_t step, double mu_product, bool first) {
    static const gd_optim_op ops[] = {GD_OPTIM_sgd, GD_OPTIM_adam, GD_OPTIM_adam, GD_OPTIM_rmsprop, GD_OPTIM_adagrad, GD_OPTIM_adadelta, GD_OPTIM_adamax,
                                      GD_OPTIM_nadam, GD_OPTIM_radam, GD_OPTIM_lion};
    const uint8_t used = regions_used(o, h);
    gd_optim_args a = {.param = p->ptr[0], .grad = grad, .momentum = used >> 2 & 1 ? p->ptr[2] : NULL, .exp_avg = used >> 3 & 1 ? p->ptr[3] : NULL,
                       .exp_avg_sq = used >> 4 & 1 ? p->ptr[4] : NULL, .max_exp_avg_sq = used >> GD_MAX_SQUARE & 1 ? p->max_exp_avg_sq : NULL,
                       .n = bytes / gd_dtype_bytes(p->dtype), .lr = h->lr, .beta1 = h->beta1, .beta2 = h->beta2, .eps = h->eps, .weight_decay = h->weight_decay,
                       .sgd_momentum = h->momentum, .dampening = h->dampening, .initial = h->initial, .dtype = p->dtype, .nesterov = h->nesterov != 0,
                       .maximize = h->maximize != 0, .centered = h->centered != 0, .first_step = first};
    a.decoupled_decay = o->kind == GD_ADAMW || o->kind == GD_LION || ((o->kind == GD_NADAM || o->kind == GD_RADAM) && h->decoupled);
    set_rates(o, h, step, mu_product, &a);
    const int64_t began = gd_profile_began();
    if (p->device) gd_device_optim(ops[o->kind], &a, p->device);
    else if (gd_is_half(a.dtype)) gd_half_optim(ops[o->kind], &a);
    else gd_optim_kernel_now(ops[o->kind])(&a);
    if (__builtin_expect(began != 0, 0)) gd_profile_update(ops[o->kind], &a, began);
}

/* Counts an update of an entry. */
static void advance(const gd_optimizer *o, const gd_hyper *h, entry *e) {
    e->step++;
    if (o->kind == GD_NADAM) e->mu_product *= (float)nadam_momentum(h, e->step);
}

/* Whether b follows a in the slab and takes the very same update, so both are one run. used: regions of the optimizer. */
static bool continues(const gd_param *a, const gd_param *b, int64_t bytes, uint8_t used) {
    return a->in_slab && b->in_slab && a->dtype == b->dtype && a->device == b->device && (char *)b->ptr[0] == (char *)a->ptr[0] + bytes && !a->max_exp_avg_sq && !b->max_exp_avg_sq &&
           ((a->used ^ b->used) & used) == 0;
}

static void step_group(gd_optimizer *o, group *g) {
    uint8_t used = regions_used(o, &g->hyper);
    for (int64_t i = 0; i < g->count;) {
        gd_node *n = gd_node_peek(g->entries[i].parameter);
        if (!(n->work & GD_GRAD_SET)) {
            i++;
            continue;
        }
        gd_param *first = n->param;
        bool fresh = !(first->used & used);
        const float before = g->entries[i].mu_product;
        advance(o, &g->hyper, &g->entries[i]);
        int64_t bytes = 0, step = g->entries[i].step;
        const float product = g->entries[i].mu_product;
        int64_t end = i;
        do { /* the longest run from here */
            bytes += n->param->bytes;
            if (end > i) g->entries[end].step = step, g->entries[end].mu_product = product;
            gd_storage(n)->version++;
            if (++end == g->count) break;
            n = gd_node_peek(g->entries[end].parameter);
        } while (n->work & GD_GRAD_SET && g->entries[end].step + 1 == step && g->entries[end].mu_product == before && continues(first, n->param, bytes, used));
        update(o, &g->hyper, first, first->ptr[1], first->in_slab ? bytes : gd_numel(&gd_node_peek(first->state[0])->v) * gd_dtype_bytes(first->dtype), step,
               (double)product, fresh);
        for (; i < end; i++) {
            gd_param *p = gd_node_peek(g->entries[i].parameter)->param;
            p->used |= used;
            moments_changed(p);
        }
    }
}

gd_status gd_optimizer_step(gd_optimizer *o) {
    GD_TRY(check_optimizer(o));
    for (int64_t k = 0; k < o->count; k++) { /* first everything that can fail */
        group *g = &o->groups[k];
        for (int64_t i = 0; i < g->count; i++) {
            gd_node *n = gd_node_of(g->entries[i].parameter, "optimizer step");
            if (!n) return gd_last_status();
            if (!(n->work & GD_GRAD_SET)) continue;
            GD_TRY(prepare(o, &g->hyper, n, &g->entries[i]));
            gd_grad_settle(n);
        }
    }
    for (int64_t k = 0; k < o->count; k++) step_group(o, &o->groups[k]);
    return GD_OK;
}

gd_status gd_optimizer_apply(gd_optimizer *o, gd_node *n, const void *grad) {
    group *g = NULL;
    entry *e = find_entry(o, n->self, &g);
    GD_TRY(prepare(o, &g->hyper, n, e));
    bool first = !(n->param->used & regions_used(o, &g->hyper));
    advance(o, &g->hyper, e);
    update(o, &g->hyper, n->param, grad, gd_numel(&n->v) * gd_dtype_bytes(n->v.dtype), e->step, (double)e->mu_product, first);
    n->param->used |= regions_used(o, &g->hyper);
    moments_changed(n->param);
    gd_storage(n)->version++;
    return GD_OK;
}

gd_status gd_optimizer_set_state(gd_optimizer *o, gd_tensor parameter, int which, gd_tensor value) {
    GD_TRY(check_optimizer(o));
    entry *e = find_entry(o, parameter, NULL);
    gd_node *n = e ? gd_node_of(parameter, "optimizer") : NULL, *s = n ? gd_node_of(value, "optimizer") : NULL;
    if (!e || which < 2 || which >= GD_STATES) return gd_fail(GD_ERR_VALUE, "optimizer: no such parameter, or no state number %d", which);
    if (!s) return gd_last_status();
    if (memcmp(s->v.shape, n->v.shape, sizeof n->v.shape) != 0)
        return gd_fail(GD_ERR_SHAPE, "optimizer: state of shape %s for a parameter of shape %s", gd_text_view(&s->v), gd_text_view(&n->v));
    gd_start start = gd_here(); /* a copy: the value may be the very moments that are forgotten now */
    gd_tensor copy = GD_RECORD(copy, NULL, value);
    if (!copy || (which == GD_MAX_SQUARE && gd_param_amsgrad(n->param) < 0)) return gd_or_return(start, 0), gd_last_status();
    if (n->param->owner != o) {
        forget_moments(n->param);
        n->param->owner = o;
    }
    e->has_moments = true;
    gd_view to = n->v;
    to.data = which < GD_REGIONS ? n->param->ptr[which] : n->param->max_exp_avg_sq;
    gd_copy_view(&to, &gd_node_peek(copy)->v);
    n->param->used |= (uint8_t)(1 << which);
    moments_changed(n->param);
    gd_arena_return(start.arena, &start.place);
    return GD_OK;
}

gd_status gd_optimizer_zero_grad(gd_optimizer *o) {
    GD_TRY(check_optimizer(o));
    for (int64_t k = 0; k < o->count; k++)
        for (int64_t i = 0; i < o->groups[k].count; i++) {
            gd_node *n = gd_node_of(o->groups[k].entries[i].parameter, "zero_grad");
            if (!n) return gd_last_status();
            gd_grad_clear(n);
            gd_storage(n)->work &= (uint16_t)~GD_LATER;
        }
    return GD_OK;
}

int64_t gd_optimizer_get_step(gd_optimizer *o, gd_tensor parameter) {
    GD_TRY(check_optimizer(o));
    entry *e = find_entry(o, parameter, NULL);
    if (!e) return gd_fail(GD_ERR_VALUE, "optimizer: this parameter is not one of its own");
    gd_node *n = gd_node_of(parameter, "optimizer");
    if (!n) return gd_last_status();
    GD_TRY(check_owner(o, n, e)); /* a step beside somebody else's moments would make a wrong state */
    return e->step;
}

gd_status gd_optimizer_set_step(gd_optimizer *o, gd_tensor parameter, int64_t step) {
    GD_TRY(check_optimizer(o));
    entry *e = find_entry(o, parameter, NULL);
    if (!e || step < 0) return gd_fail(GD_ERR_VALUE, "optimizer: no such parameter, or step %lld is negative", (long long)step);
    if (step == 0) { /* as if it had never been updated */
        gd_node *n = gd_node_peek(parameter);
        if (n && n->param->owner == o) {
            forget_moments(n->param);
            n->param->owner = NULL;
        }
        e->has_moments = false;
        e->mu_product = 1;
    }
    e->step = step;
    return GD_OK;
}

double gd_optimizer_get_factor(gd_optimizer *o, gd_tensor parameter) {
    const entry *e = o ? find_entry(o, parameter, NULL) : NULL;
    return e ? (double)e->mu_product : (double)NAN;
}

gd_status gd_optimizer_set_factor(gd_optimizer *o, gd_tensor parameter, double factor) {
    GD_TRY(check_optimizer(o));
    entry *e = find_entry(o, parameter, NULL);
    if (!e) return gd_fail(GD_ERR_VALUE, "optimizer: this parameter is not one of its own");
    e->mu_product = (float)factor;
    return GD_OK;
}
