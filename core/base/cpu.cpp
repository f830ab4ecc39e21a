// CPU dispatch decision, made once.
#include "core/base/cpu.h"

#include <cpuid.h>

#include "core/base/env.h"
#include "core/base/error.h"

namespace lockstep {
namespace {

// By cpuid, because clang 14 has no __builtin_cpu_supports("f16c").
bool cpu_has_f16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

// The first two also say whether the system saves the wide registers.
bool cpu_has_avx2() {
  return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0 &&
         cpu_has_f16c();
}

CpuCapability decide() {
  const auto forced = env::get("LOCKSTEP_CPU_CAPABILITY");
  if (!forced) return cpu_has_avx2() ? CpuCapability::Avx2 : CpuCapability::Default;
  if (*forced == "default") return CpuCapability::Default;
  LOCKSTEP_CHECK_KIND(Usage, *forced == "avx2", "environment variable LOCKSTEP_CPU_CAPABILITY=\"",
                      *forced, "\": expected default or avx2");
  LOCKSTEP_CHECK_KIND(Usage, cpu_has_avx2(),
                      "environment variable LOCKSTEP_CPU_CAPABILITY=avx2: this CPU lacks AVX2, FMA "
                      "or F16C; unset it");
  return CpuCapability::Avx2;
}

}  // namespace

CpuCapability cpu_capability() {
  static const CpuCapability capability = decide();
  return capability;
}

const char* cpu_capability_name() {
  return cpu_capability() == CpuCapability::Avx2 ? "AVX2" : "default";
}

}  // namespace lockstep
