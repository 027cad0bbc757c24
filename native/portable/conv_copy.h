/* conv_copy.h - rows of a source with zeros around them, any strides, in plain C:
 * to[r][j] = src[r][j] where from <= j < end, else 0, for j < columns. Strides in elements. */
#include <string.h>

#define DEFINE_COPY_ROWS(T, name)                                                                                                 \
    static inline void name(const T *src, int64_t s_row, int64_t s_column, int64_t rows, int64_t from, int64_t end, int64_t columns, \
                            T *to, int64_t to_row) {                                                                              \
        for (int64_t r = 0; r < rows; r++, src += s_row, to += to_row) {                                                          \
            for (int64_t j = 0; j < from; j++) to[j] = 0;                                                                         \
            if (s_column == 1 && end > from) memcpy(to + from, src + from, (size_t)(end - from) * sizeof(T));                     \
            else if (s_column == 2) for (int64_t j = from; j < end; j++) to[j] = src[2 * j];                                      \
            else for (int64_t j = from; j < end; j++) to[j] = src[j * s_column];                                                  \
            for (int64_t j = end; j < columns; j++) to[j] = 0;                                                                    \
        }                                                                                                                         \
    }
