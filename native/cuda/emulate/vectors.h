/* vectors.h - CUDA's vector types. */
#ifndef GRADINO_EMULATE_VECTORS_H
#define GRADINO_EMULATE_VECTORS_H

#include <stdint.h>

#define GD_VECTORS(name, type)                                                                 \
    struct name##1 { type x; };                                                                \
    struct alignas(2 * sizeof(type)) name##2 { type x, y; };                                   \
    struct name##3 { type x, y, z; };                                                          \
    struct alignas(4 * sizeof(type) > 16 ? 16 : 4 * sizeof(type)) name##4 { type x, y, z, w; }; \
    static inline name##1 make_##name##1(type x) { return {x}; }                               \
    static inline name##2 make_##name##2(type x, type y) { return {x, y}; }                    \
    static inline name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; }         \
    static inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
GD_VECTORS(char, signed char)
GD_VECTORS(uchar, unsigned char)
GD_VECTORS(short, short)
GD_VECTORS(ushort, unsigned short)
GD_VECTORS(int, int)
GD_VECTORS(uint, unsigned)
GD_VECTORS(longlong, long long)
GD_VECTORS(ulonglong, unsigned long long)
GD_VECTORS(float, float)
GD_VECTORS(double, double)
#undef GD_VECTORS

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

#endif
