/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* From a program's struct ibv_device to the host's device. */
#ifndef URXE_HCA_DEVICE_H
#define URXE_HCA_DEVICE_H

#include "hca/hca.h"

struct urxe_device *urxe_device_of(const struct ibv_device *device);

#endif
