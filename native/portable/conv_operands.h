/* conv_operands.h - operands of the register tiles of convolutions; strides in elements. */

/* One vector of points: n of each of `rows` rows, from these places of source and result on. */
typedef struct conv_unit {
    int64_t x, y;
    int n, rows;
} conv_unit;

typedef struct conv_tile {
    const void *x, *w, *init; /* init: of each result, NULL for none */
    void *y;
    const conv_unit *unit;
    const int64_t *x_off, *w_off;                  /* of each tap */
    int64_t taps, channels, x_plane, w_plane, x_step, y_step, y_plane; /* step: from row to row of a unit */
    bool accumulate;                               /* add to y, where there is no init */
} conv_tile;
typedef void conv_fn(const conv_tile *t);

typedef struct conv_sums {
    const void *x, *g;
    void *sum;
    const int64_t *x_off;                          /* of each row: a tap of a channel */
    int64_t images, rows, columns, x_image, x_row; /* points */
    int64_t lanes;                                 /* of the sums from row to row */
    bool accumulate;
} conv_sums;
typedef void sums_fn(const conv_sums *t);
