// Where a tensor's memory is: the CPU, or one CUDA device by its index in this process.
#pragma once

#include <cstdint>
#include <ostream>

namespace lockstep {

enum class DeviceType : uint8_t { CPU, CUDA };

class Device {
 public:
  constexpr Device() = default;
  constexpr Device(DeviceType type, int index = 0) : type_(type), index_(index) {}

  constexpr DeviceType type() const { return type_; }
  constexpr int index() const { return index_; }
  constexpr bool is_cpu() const { return type_ == DeviceType::CPU; }
  constexpr bool is_cuda() const { return type_ == DeviceType::CUDA; }

  friend constexpr bool operator==(const Device&, const Device&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Device& device) {
    if (device.is_cpu()) return out << "cpu";
    return out << "cuda:" << device.index_;
  }

 private:
  DeviceType type_ = DeviceType::CPU;
  int index_ = 0;
};

inline constexpr Device kCPU{};

}  // namespace lockstep
