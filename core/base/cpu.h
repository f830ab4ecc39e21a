// Which instruction set the CPU kernels use: decided once, as PyTorch decides.
#pragma once

#include <cstdint>

namespace lockstep {

enum class CpuCapability : uint8_t { Default, Avx2 };

/// Avx2 when the CPU has AVX2, FMA and F16C, unless the environment variable
/// LOCKSTEP_CPU_CAPABILITY=default forces the portable path (=avx2 on a CPU without it is an
/// Error(Usage)). Read on first use; the same for the whole process.
CpuCapability cpu_capability();

/// "AVX2" or "default".
const char* cpu_capability_name();

}  // namespace lockstep
