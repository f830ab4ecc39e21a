// A stream of a CUDA device, as an opaque pointer: the type behind cudaStream_t, so that no header
// of ours needs NVIDIA's. Every function of kernels::cuda takes its stream last, enqueues its work
// there and returns; none of them waits.
#pragma once

struct CUstream_st;

namespace lockstep::kernels {

using Stream = CUstream_st*;

}  // namespace lockstep::kernels
