/* rnn.h - blocking and workspace of the recurrent kernels, for their shape rules and drivers; bytes,
 * the same on every ISA. */
#ifndef GRADINO_RNN_H
#define GRADINO_RNN_H

#include "kernel.h"

enum {
    GD_RNN_ROWS = 8,       /* a register tile of the AVX-512 product with A in place: rows are split by it */
    GD_RNN_MOST_ROWS = 32, /* of one task: more would share weights among more rows, but push their pre-activations out of L1 */
    GD_RNN_UNITS = 16,     /* hidden units whose four gates are computed together: their pre-activations stay in L1 */
    GD_RNN_GATES = 4 * GD_RNN_UNITS,
    GD_RNN_COLUMNS = 64,   /* columns of W_hh packed together for backward */
};

/* Where things lie in a workspace. */
typedef struct gd_lstm_layout {
    int64_t rows;                                   /* of a task */
    int64_t bias, w_ih, w_hh, ih_bytes, hh_bytes;   /* summed biases; packed weights, so many bytes for each block of units */
    int64_t h0, c0;                                 /* initial states, where the given ones do not lie side by side */
    int64_t workers, worker_bytes, total;           /* pre-activations of one block, or a block of weights on its way to be packed */
} gd_lstm_layout;

typedef struct gd_lstm_bwd_layout {
    int64_t rows;
    int64_t w_hh, hh_bytes, zeros;        /* packed weights; a row of zeros */
    int64_t workers, worker_bytes, total; /* dh, dc, c0 and dy of a task's rows */
} gd_lstm_bwd_layout;

#pragma GCC visibility push(hidden)
/* B rows, I inputs, H hidden units; depends on gd_parallel_width(). */
gd_lstm_layout gd_lstm_layout_of(int64_t B, int64_t I, int64_t H, int dtype);
gd_lstm_bwd_layout gd_lstm_bwd_layout_of(int64_t B, int64_t H, int dtype);
#pragma GCC visibility pop

#endif
