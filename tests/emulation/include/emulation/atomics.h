// Atomic operations of device code. Only the overloads that CUDA has are here: what compiles in
// the emulation must compile with nvcc.
#pragma once

namespace lockstep::emulation {

/// Tells the checks that nbytes at address are touched atomically, and lets other threads run now
/// and then, so that a thread that spins on an atomic sees their progress.
void atomic_access(const void* address, unsigned nbytes);
/// Not looked at by the checks: atomic_access has reported the access.
void unchecked_copy(void* destination, const void* source, unsigned nbytes);

template <typename T, typename F>
T atomic_update(T* address, F update) {
  atomic_access(address, sizeof(T));
  T old;
  unchecked_copy(&old, address, sizeof(T));
  const T value = update(old);
  unchecked_copy(address, &value, sizeof(T));
  return old;
}

using ULongLong = unsigned long long;

}  // namespace lockstep::emulation

#define LOCKSTEP_EMULATION_ATOMIC(T, name, expression)                                           \
  inline T name(T* address, T operand) {                                                         \
    return lockstep::emulation::atomic_update(                                                   \
        address, [operand]([[maybe_unused]] T old) -> T { return static_cast<T>(expression); }); \
  }
#define LOCKSTEP_EMULATION_ATOMICS(T)                                          \
  LOCKSTEP_EMULATION_ATOMIC(T, atomicAdd, old + operand)                       \
  LOCKSTEP_EMULATION_ATOMIC(T, atomicExch, operand)                            \
  LOCKSTEP_EMULATION_ATOMIC(T, atomicMax, old < operand ? operand : old)       \
  LOCKSTEP_EMULATION_ATOMIC(T, atomicMin, operand < old ? operand : old)       \
  LOCKSTEP_EMULATION_ATOMIC(T, atomicAnd, old& operand)                        \
  LOCKSTEP_EMULATION_ATOMIC(T, atomicOr, old | operand)                        \
  LOCKSTEP_EMULATION_ATOMIC(T, atomicXor, old ^ operand)                       \
  inline T atomicCAS(T* address, T expected, T desired) {                      \
    return lockstep::emulation::atomic_update(                                 \
        address, [=](T old) -> T { return old == expected ? desired : old; }); \
  }

LOCKSTEP_EMULATION_ATOMICS(int)
LOCKSTEP_EMULATION_ATOMICS(unsigned)
LOCKSTEP_EMULATION_ATOMICS(lockstep::emulation::ULongLong)
LOCKSTEP_EMULATION_ATOMIC(int, atomicSub, old - operand)
LOCKSTEP_EMULATION_ATOMIC(unsigned, atomicSub, old - operand)
LOCKSTEP_EMULATION_ATOMIC(unsigned, atomicInc, old >= operand ? 0 : old + 1)
LOCKSTEP_EMULATION_ATOMIC(float, atomicAdd, old + operand)
LOCKSTEP_EMULATION_ATOMIC(float, atomicExch, operand)
LOCKSTEP_EMULATION_ATOMIC(double, atomicAdd, old + operand)

#undef LOCKSTEP_EMULATION_ATOMICS
#undef LOCKSTEP_EMULATION_ATOMIC
