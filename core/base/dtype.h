// Element types of tensors, and the one switch that turns a run-time DType into a C++ type.
#pragma once

#include <cstdint>
#include <ostream>

#include "core/base/error.h"
#include "core/base/half.h"

namespace lockstep {

enum class DType : uint8_t { Float32, Float64, Float16, BFloat16, Int64, UInt8 };

constexpr int64_t element_size(DType dtype) {
  switch (dtype) {
    case DType::Float64:
    case DType::Int64:
      return 8;
    case DType::Float32:
      return 4;
    case DType::Float16:
    case DType::BFloat16:
      return 2;
    case DType::UInt8:
      return 1;
  }
  return 0;
}

constexpr bool is_floating(DType dtype) { return dtype != DType::Int64 && dtype != DType::UInt8; }

/// True for the 16-bit floating types, whose sums are taken in fp32.
constexpr bool is_reduced_floating(DType dtype) {
  return dtype == DType::Float16 || dtype == DType::BFloat16;
}

constexpr const char* dtype_name(DType dtype) {
  switch (dtype) {
    case DType::Float32:
      return "Float32";
    case DType::Float64:
      return "Float64";
    case DType::Float16:
      return "Float16";
    case DType::BFloat16:
      return "BFloat16";
    case DType::Int64:
      return "Int64";
    case DType::UInt8:
      return "UInt8";
  }
  return "?";
}

inline std::ostream& operator<<(std::ostream& out, DType dtype) { return out << dtype_name(dtype); }

/// DType of a C++ element type: dtype_of<float> == DType::Float32.
template <typename T>
inline constexpr DType dtype_of = DType::UInt8;
template <>
inline constexpr DType dtype_of<float> = DType::Float32;
template <>
inline constexpr DType dtype_of<double> = DType::Float64;
template <>
inline constexpr DType dtype_of<Half> = DType::Float16;
template <>
inline constexpr DType dtype_of<BFloat16> = DType::BFloat16;
template <>
inline constexpr DType dtype_of<int64_t> = DType::Int64;

/// The type that sums and transcendental functions of T are computed in: fp32 for the 16-bit types.
template <typename T>
struct Accumulate {
  using type = T;
};
template <>
struct Accumulate<Half> {
  using type = float;
};
template <>
struct Accumulate<BFloat16> {
  using type = float;
};
template <typename T>
using accumulate_t = typename Accumulate<T>::type;

/// Calls body(T{}) with the floating C++ type of dtype: dispatch_floating("relu", dt, [&](auto
/// zero) { using T = decltype(zero); ... }). Throws Error naming the operation for an integer
/// dtype.
template <typename Body>
void dispatch_floating(const char* operation, DType dtype, Body&& body) {
  switch (dtype) {
    case DType::Float32:
      return body(float{});
    case DType::Float64:
      return body(double{});
    case DType::Float16:
      return body(Half{});
    case DType::BFloat16:
      return body(BFloat16{});
    default:
      LOCKSTEP_THROW(Internal, operation, ": expected a floating dtype, got ", dtype);
  }
}

/// The same for every dtype.
template <typename Body>
void dispatch_all(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::Int64:
      return body(int64_t{});
    case DType::UInt8:
      return body(uint8_t{});
    default:
      return dispatch_floating("dispatch", dtype, body);
  }
}

}  // namespace lockstep
