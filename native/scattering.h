/* scattering.h - what scatter does where an index points. */
#ifndef GRADINO_SCATTERING_H
#define GRADINO_SCATTERING_H

enum { GD_SCATTER_SET, GD_SCATTER_ADD, GD_SCATTER_MUL, GD_SCATTER_MAX, GD_SCATTER_MIN, GD_SCATTER_MODES };

#endif
