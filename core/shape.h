// The extents of a tensor, stored inline: shapes are made several times per operation, and a step
// must not allocate.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <span>

namespace lockstep {

/// Up to kMaxDims extents, each >= 0. Shape{} is a scalar's shape (numel 1).
class Shape {
 public:
  static constexpr int kMaxDims = 6;

  Shape() = default;
  Shape(std::initializer_list<int64_t> sizes) : Shape(std::span(sizes.begin(), sizes.size())) {}
  /// Throws Error for a negative extent, more than kMaxDims, or a product beyond int64.
  explicit Shape(std::span<const int64_t> sizes);

  int dim() const { return dim_; }
  int64_t numel() const;
  /// size(-1) is the last extent. Throws Error when there is no such dimension.
  int64_t size(int dim) const;
  int64_t operator[](int dim) const { return sizes_[static_cast<size_t>(dim)]; }
  const int64_t* begin() const { return sizes_.data(); }
  const int64_t* end() const { return sizes_.data() + dim_; }

  friend bool operator==(const Shape& a, const Shape& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  std::array<int64_t, kMaxDims> sizes_{};
  int dim_ = 0;
};

/// Prints "[32, 1000]".
std::ostream& operator<<(std::ostream& out, const Shape& shape);

}  // namespace lockstep
