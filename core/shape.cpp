// Checked construction and printing of shapes.
#include "core/shape.h"

#include <limits>

#include "core/base/error.h"

namespace lockstep {

Shape::Shape(std::span<const int64_t> sizes) {
  LOCKSTEP_CHECK(sizes.size() <= static_cast<size_t>(kMaxDims), "shape: ", sizes.size(),
                 " dimensions given, at most ", kMaxDims, " are supported");
  int64_t numel = 1;
  for (const int64_t size : sizes) {
    LOCKSTEP_CHECK(size >= 0, "shape: extent ", size, " is negative");
    LOCKSTEP_CHECK(!__builtin_mul_overflow(numel, std::max<int64_t>(size, 1), &numel),
                   "shape: the product of the extents overflows 64 bits");
    sizes_[static_cast<size_t>(dim_++)] = size;
  }
  // So that no product of an extent and an element's size can overflow.
  LOCKSTEP_CHECK(numel <= std::numeric_limits<int64_t>::max() / 16, "shape: ", *this, " has ",
                 numel, " elements, more than can be addressed");
}

int64_t Shape::numel() const {
  int64_t numel = 1;
  for (const int64_t size : *this) numel *= size;
  return numel;
}

int64_t Shape::size(int dim) const {
  const int wrapped = dim < 0 ? dim + dim_ : dim;
  LOCKSTEP_CHECK(wrapped >= 0 && wrapped < dim_, "size: dimension ", dim,
                 " does not exist in a tensor of shape ", *this);
  return sizes_[static_cast<size_t>(wrapped)];
}

std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  out << '[';
  for (int i = 0; i < shape.dim(); ++i) out << (i > 0 ? ", " : "") << shape[i];
  return out << ']';
}

}  // namespace lockstep
