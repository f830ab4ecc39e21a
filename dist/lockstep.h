// Everything a user of the library needs, in one header: "lockstep/lockstep.h" once installed.
// It includes the standard library and our own headers only.
#pragma once

#include "core/autograd.h"
#include "core/base/device.h"
#include "core/base/dtype.h"
#include "core/base/error.h"
#include "core/base/half.h"
#include "core/base/version.h"
#include "core/nn/layers.h"
#include "core/nn/module.h"
#include "core/ops.h"
#include "core/optim/optimizer.h"
#include "core/random.h"
#include "core/tensor.h"
#include "dist/distributed_data_parallel.h"
#include "dist/process_group.h"
#include "dist/store.h"
