/* moments.c - var, std and logsumexp: moments.h with the row functions of prows.h. */
#include "prows.h"

#include "../moments.h"

void GD_KERNEL(var)(const gd_args *a) { gd_var_all(a); }
void GD_KERNEL(std)(const gd_args *a) { gd_std_all(a); }
void GD_KERNEL(logsumexp)(const gd_args *a) { gd_logsumexp_all(a); }
