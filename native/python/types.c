/* types.c - the Python types whose methods must not be torn apart: what a `with` block opens and leaves.
 * An interrupt comes between two steps of Python code. These methods have none: a scope is open and known to its
 * object, or it is neither. An object that dies with a scope open gives it up, from whatever thread.
 * Compiled into the extension gradino._native, behind what cffi generates. */
#include <structmember.h>

#include "gradino.h"

/* Set by set_callbacks: raise_error() raises the library's last error, make_arena(address) makes an Arena,
 * borrowed holds by address what the tensors of an arena have borrowed, until it is emptied. drop_objects lets go of
 * objects whose tensors are gone. */
static PyObject *raise_error, *arena_error, *make_arena, *borrowed, *drop_objects;

static PyObject *set_callbacks(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *a, *b, *c, *d, *e;
    if (!PyArg_ParseTuple(arguments, "OOOO!O", &a, &b, &c, &PyDict_Type, &d, &e)) return NULL;
    Py_INCREF(a), Py_INCREF(b), Py_INCREF(c), Py_INCREF(d), Py_INCREF(e);
    raise_error = a, arena_error = b, make_arena = c, borrowed = d, drop_objects = e;
    Py_RETURN_NONE;
}

/* NULL with the library's error raised. */
static PyObject *fail(void) {
    PyObject *none = PyObject_CallObject(raise_error, NULL);
    Py_XDECREF(none);
    if (none) PyErr_SetString(PyExc_SystemError, "gradino: no error to raise");
    return NULL;
}

/* Whether an __exit__ with these arguments is for an exception, so that blocks inside have ended, too: an
 * interrupt may have kept one from saying so. A generator that is closed ends alone. -1: wrong arguments. */
static int unwinds(PyObject *arguments) {
    PyObject *kind, *value, *trace;
    if (!PyArg_ParseTuple(arguments, "OOO", &kind, &value, &trace)) return -1;
    return kind != Py_None && kind != PyExc_GeneratorExit;
}

static void release(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    freefunc give_back = (freefunc)PyType_GetSlot(type, Py_tp_free);
    give_back(self);
    Py_DECREF(type);
}

/* ---- Ids of what an object has opened and not left ------------------------------------------------------------ */

typedef struct id_list {
    int64_t *item;
    int count, room;
} id_list;

/* Room for one more; 0 with an exception set. */
static int make_room(id_list *l) {
    if (l->count < l->room) return 1;
    int64_t *bigger = PyMem_Realloc(l->item, sizeof *bigger * (size_t)(l->room + 4));
    if (!bigger) return PyErr_NoMemory(), 0;
    l->item = bigger;
    l->room += 4;
    return 1;
}

static void take_out(id_list *l, int at) {
    for (l->count--; at < l->count; at++) l->item[at] = l->item[at + 1];
}

/* ---- step_arena ------------------------------------------------------------------------------------------------- */

typedef struct step_scope {
    PyObject_HEAD
    int64_t scope; /* 0: not open */
    gd_arena *arena;
} step_scope;

/* An Arena for the active one. The step arenas of a thread are always the same few, and so are their objects. */
static PyObject *arena_object(gd_arena *arena) {
    static struct { gd_arena *arena; PyObject *object; } seen[16];
    unsigned place = (unsigned)((uintptr_t)arena / 64 % 16);
    if (seen[place].arena == arena) {
        Py_INCREF(seen[place].object);
        return seen[place].object;
    }
    PyObject *made = PyObject_CallFunction(make_arena, "K", (unsigned long long)(uintptr_t)arena);
    if (!made) return NULL;
    PyObject *old = seen[place].object; /* another thread may have come first */
    seen[place].arena = arena;
    seen[place].object = made;
    Py_INCREF(made);
    Py_XDECREF(old);
    return made;
}

static PyObject *step_enter(PyObject *o, PyObject *nothing) {
    (void)nothing;
    step_scope *self = (step_scope *)o;
    if (self->scope && gd_scope_is_open(self->scope)) {
        PyErr_SetString(arena_error, "this step_arena() is open already: call step_arena() anew for each block");
        return NULL;
    }
    int64_t scope = gd_scope_enter_step();
    if (scope < 0) return fail();
    self->scope = scope;
    self->arena = gd_arena_active();
    PyObject *arena = arena_object(self->arena);
    if (!arena) { /* no memory, or an interrupt meanwhile */
        gd_scope_unwind(scope);
        self->scope = 0;
    }
    return arena;
}

static PyObject *step_exit(PyObject *o, PyObject *arguments) {
    step_scope *self = (step_scope *)o;
    int unwind = unwinds(arguments);
    if (unwind < 0) return NULL;
    int64_t scope = self->scope;
    if (!scope) Py_RETURN_NONE;
    if (!gd_scope_arena(scope)) { /* of a generator that another thread began, or ended already: somebody else may be in the arena */
        gd_scope_abandon(scope);
        self->scope = 0;
        Py_RETURN_NONE;
    }
    if ((unwind ? gd_scope_unwind(scope) : gd_scope_exit(scope)) < 0) return fail();
    self->scope = 0;
    if (PyDict_Size(borrowed)) {
        PyObject *address = PyLong_FromVoidPtr(self->arena);
        if (!address) return NULL;
        if (PyDict_DelItem(borrowed, address) < 0) PyErr_Clear(); /* it had borrowed nothing */
        Py_DECREF(address);
    }
    return gd_has_dropped() ? PyObject_CallObject(drop_objects, NULL) : Py_NewRef(Py_None);
}

static void step_dealloc(PyObject *o) {
    int64_t scope = ((step_scope *)o)->scope;
    if (scope) gd_scope_abandon(scope);
    release(o);
}

/* ---- with arena ---------------------------------------------------------------------------------------------------- */

typedef struct arena_scope {
    PyObject_HEAD
    gd_arena *arena;
    id_list open; /* by threads that may share the arena, but not a scope */
} arena_scope;

static PyObject *arena_enter(PyObject *o, PyObject *nothing) {
    (void)nothing;
    arena_scope *self = (arena_scope *)o;
    if (!make_room(&self->open)) return NULL;
    int64_t scope = gd_scope_enter(self->arena);
    if (scope < 0) return fail();
    self->open.item[self->open.count++] = scope;
    Py_INCREF(o);
    return o;
}

static PyObject *arena_exit(PyObject *o, PyObject *arguments) {
    arena_scope *self = (arena_scope *)o;
    int unwind = unwinds(arguments);
    if (unwind < 0) return NULL;
    int at = self->open.count - 1;
    while (at >= 0 && !gd_scope_arena(self->open.item[at])) at--; /* the last one of this thread */
    if (at < 0) {
        if (self->open.count == 1) gd_scope_abandon(self->open.item[0]); /* a generator that another thread began */
        self->open.count = 0;
        Py_RETURN_NONE;
    }
    int64_t scope = self->open.item[at];
    take_out(&self->open, at);
    if ((unwind ? gd_scope_unwind(scope) : gd_scope_exit(scope)) < 0) return fail();
    Py_RETURN_NONE;
}

static void arena_dealloc(PyObject *o) {
    arena_scope *self = (arena_scope *)o;
    while (self->open.count) gd_scope_abandon(self->open.item[--self->open.count]);
    PyMem_Free(self->open.item);
    release(o);
}

/* ---- no_grad, autocast and the like -------------------------------------------------------------------------------------------- */

typedef struct grad_scope {
    PyObject_HEAD
    char enabled;
    char autocast; /* 0: it is about recording; 3 + what gd_autocast_enter takes */
    char cache;    /* casts of leaves are remembered */
    char restore; /* what set_grad_enabled found, and puts back before a block begins; 2: nothing */
    id_list open; /* by threads that may share the object */
} grad_scope;

static PyObject *grad_enter(PyObject *o, PyObject *nothing) {
    (void)nothing;
    grad_scope *self = (grad_scope *)o;
    if (!make_room(&self->open)) return NULL;
    if (self->restore != 2) gd_grad_mode_set(self->restore);
    int64_t mode = self->autocast ? gd_autocast_enter(self->autocast - 3, self->cache) : gd_grad_mode_enter(self->enabled);
    if (mode < 0) return fail();
    self->open.item[self->open.count++] = mode;
    Py_RETURN_NONE;
}

static PyObject *grad_exit(PyObject *o, PyObject *arguments) {
    grad_scope *self = (grad_scope *)o;
    int unwind = unwinds(arguments);
    if (unwind < 0) return NULL;
    for (int at = self->open.count - 1; at >= 0; at--)
        if (gd_grad_mode_exit(self->open.item[at], unwind)) { /* the last one of this thread */
            take_out(&self->open, at);
            Py_RETURN_NONE;
        }
    if (self->open.count == 1) gd_grad_mode_abandon(self->open.item[--self->open.count]); /* of a generator that another thread began */
    Py_RETURN_NONE;
}

static void grad_dealloc(PyObject *o) {
    grad_scope *self = (grad_scope *)o;
    while (self->open.count) gd_grad_mode_abandon(self->open.item[--self->open.count]);
    PyMem_Free(self->open.item);
    release(o);
}

/* ---- The module -------------------------------------------------------------------------------------------------------- */

#define SCOPE_METHODS(kind) \
    static PyMethodDef kind##_methods[] = {{"__enter__", kind##_enter, METH_NOARGS, NULL}, {"__exit__", kind##_exit, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};
SCOPE_METHODS(step)
SCOPE_METHODS(arena)
SCOPE_METHODS(grad)

static PyMemberDef arena_members[] = {{"_address", T_ULONGLONG, offsetof(arena_scope, arena), 0, NULL}, {NULL, 0, 0, 0, NULL}};
static PyMemberDef grad_members[] = {{"_enabled", T_BOOL, offsetof(grad_scope, enabled), 0, NULL},
                                     {"_autocast", T_BYTE, offsetof(grad_scope, autocast), 0, NULL},
                                     {"_cache", T_BOOL, offsetof(grad_scope, cache), 0, NULL},
                                     {"_restore", T_BYTE, offsetof(grad_scope, restore), 0, NULL},
                                     {NULL, 0, 0, 0, NULL}};

static PyType_Slot step_slots[] = {{Py_tp_dealloc, step_dealloc}, {Py_tp_methods, step_methods}, {0, NULL}};
static PyType_Slot arena_slots[] = {{Py_tp_dealloc, arena_dealloc}, {Py_tp_methods, arena_methods}, {Py_tp_members, arena_members}, {0, NULL}};
static PyType_Slot grad_slots[] = {{Py_tp_dealloc, grad_dealloc}, {Py_tp_methods, grad_methods}, {Py_tp_members, grad_members}, {0, NULL}};

#define SCOPE_TYPE(type, kind) \
    {.name = "gradino._native." type, .basicsize = sizeof(kind##_scope), .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, .slots = kind##_slots}
static PyType_Spec scope_types[] = {SCOPE_TYPE("StepScope", step), SCOPE_TYPE("ArenaScope", arena), SCOPE_TYPE("GradScope", grad)};

static PyMethodDef functions[] = {{"set_callbacks", set_callbacks, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};

PyMODINIT_FUNC PyInit__native(void) {
    PyObject *module = gd_init_cffi();
    if (!module) return NULL;
    for (size_t i = 0; i < sizeof scope_types / sizeof *scope_types; i++) {
        PyObject *type = PyType_FromSpec(&scope_types[i]);
        if (!type || PyModule_AddObject(module, scope_types[i].name + sizeof "gradino._native", type) < 0) return NULL;
    }
    PyObject *set = PyCFunction_New(functions, NULL);
    if (!set || PyModule_AddObject(module, functions[0].ml_name, set) < 0) return NULL;
    return module;
}
