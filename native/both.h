/* both.h - GD_BOTH: functions of headers that kernels of the CPU and of CUDA share. */
#ifndef GRADINO_BOTH_H
#define GRADINO_BOTH_H

#if defined(__CUDACC__)
#define GD_BOTH static inline __host__ __device__
#else
#define GD_BOTH static inline
#endif

#endif
