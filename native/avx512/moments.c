/* moments.c - var, std and logsumexp for AVX-512: moments.h with the row functions of vrows.h. */
#include "vrows.h"

#include "../moments.h"

void gd_var_avx512(const gd_args *a) { gd_var_all(a); }
void gd_std_avx512(const gd_args *a) { gd_std_all(a); }
void gd_logsumexp_avx512(const gd_args *a) { gd_logsumexp_all(a); }
