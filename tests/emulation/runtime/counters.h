// Counting what the program asks of its devices; see Counters in emulation/control.h.
#pragma once

#include "emulation/control.h"

namespace lockstep::emulation {

void count(int64_t Counters::*field, int64_t amount = 1);
void count_launch(const void* kernel);

}  // namespace lockstep::emulation
