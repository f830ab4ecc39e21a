// Dropout: each element is kept with probability 1 - p and then divided by it. The random numbers
// come from outside, as the generator's raw words, so that the draws are the same on every device.
#pragma once

#include <cstdint>

namespace lockstep::kernels::cpu {

/// mask[i] = uniform[i] < keep, where uniform[i] is the 53-bit fraction of the word pair
/// words[2i] (high), words[2i + 1]; output[i] = input[i] * (mask[i] / keep).
/// words [2n]; mask [n] of 0 and 1. The output may not overlap the input.
template <typename T>
void dropout_forward(T* output, uint8_t* mask, const T* input, const uint32_t* words, int64_t n,
                     double keep);

/// grad_input[i] (+)= grad_output[i] * (mask[i] / keep)
template <typename T>
void dropout_backward(T* grad_input, const T* grad_output, const uint8_t* mask, int64_t n,
                      double keep, bool accumulate);

}  // namespace lockstep::kernels::cpu
