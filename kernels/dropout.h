// Dropout: each element is kept with probability 1 - p and then divided by it. The random numbers
// come from outside, as the generator's raw words, so that the draws are the same on every device.
#pragma once

#include <cstdint>

#include "kernels/stream.h"

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

namespace lockstep::kernels::cuda {

// The words come from Philox4x32-10 (Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3,
// SC 2011): key `seed`, and counter `offset` + i / 4 for the elements 4 (i / 4) to 4 (i / 4) + 3.
// Any thread can compute any of them, so nothing depends on the launch.

/// mask[i] = word[i] < keep * 2^32; output[i] = input[i] * (mask[i] / keep)
template <typename T>
void dropout_forward(T* output, uint8_t* mask, const T* input, int64_t n, double keep,
                     uint64_t seed, uint64_t offset, Stream stream);
template <typename T>
void dropout_backward(T* grad_input, const T* grad_output, const uint8_t* mask, int64_t n,
                      double keep, bool accumulate, Stream stream);

}  // namespace lockstep::kernels::cuda
