// Tensors: handles, views of a storage, checked access, conversions, in-place changes and the
// version counter.
#include "core/tensor.h"

#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "core/autograd.h"
#include "core/ops.h"
#include "tests/reference.h"

using namespace lockstep;
using namespace lockstep::test;

namespace {

constexpr DType kAllTypes[] = {DType::Float32,  DType::Float64, DType::Float16,
                               DType::BFloat16, DType::Int64,   DType::UInt8};

std::vector<float> iota(int n) {
  std::vector<float> values(static_cast<size_t>(n));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  return values;
}

}  // namespace

TEST_CASE("a new tensor has the shape, dtype and values asked for") {
  for (const DType dtype : kAllTypes) {
    const Tensor tensor = full({2, 3}, 5.0, dtype);
    CHECK(tensor.shape() == Shape({2, 3}));
    CHECK(tensor.dtype() == dtype);
    CHECK(tensor.device() == kCPU);
    CHECK(tensor.numel() == 6);
    CHECK(tensor.nbytes() == 6 * element_size(dtype));
    CHECK(tensor.is_leaf());
    CHECK(!tensor.requires_grad());
    CHECK((to_matrix(tensor).array() == 5.0).all());
    CHECK((to_matrix(zeros_like(tensor)).array() == 0.0).all());
    CHECK((to_matrix(ones({2, 3}, dtype)).array() == 1.0).all());
    CHECK(empty_like(tensor).dtype() == dtype);
    CHECK(reinterpret_cast<uintptr_t>(tensor.raw_data()) % 64 == 0);
  }
  CHECK(zeros({}).numel() == 1);
  CHECK(zeros({0, 5}).numel() == 0);
}

TEST_CASE("from_values and to_vector give the values back") {
  const std::vector<int64_t> values = {3, -1, 7};
  CHECK(Tensor::from_values(values, {3}).to_vector<int64_t>() == values);
  CHECK(Tensor::from_values(std::vector<uint8_t>{}, {0}).to_vector<uint8_t>().empty());
  check_error([] { Tensor::from_values(iota(5), {2, 3}); }, {"from_values: 5", "[2, 3]"});
}

TEST_CASE("a handle is shared: copies see the same elements") {
  Tensor a = zeros({4});
  const Tensor b = a;
  a.fill_(2.0);
  CHECK(b.to_vector<float>() == std::vector<float>(4, 2.0f));
  CHECK(a.is_same(b));
  CHECK(!a.is_same(a.detach()));
  CHECK(Tensor().is_same(Tensor()));
}

TEST_CASE("from_storage: slices of one flat bucket are tensors") {
  const Storage bucket = Storage::allocate(10 * 4, kCPU);
  Tensor whole = Tensor::from_storage(bucket, 0, {10}, DType::Float32);
  whole.copy_(Tensor::from_values(iota(10), {10}));
  Tensor slice = Tensor::from_storage(bucket, 4, {2, 3}, DType::Float32);
  CHECK(slice.to_vector<float>() == std::vector<float>{4, 5, 6, 7, 8, 9});
  CHECK(slice.storage_offset() == 4);
  CHECK(slice.storage() == whole.storage());
  slice.fill_(-1.0);
  CHECK(whole.to_vector<float>() == std::vector<float>{0, 1, 2, 3, -1, -1, -1, -1, -1, -1});
  CHECK(Tensor::from_storage(bucket, 10, {0}, DType::Float32).numel() == 0);
}

TEST_CASE("from_storage: what does not fit or is not aligned is refused") {
  const Storage storage = Storage::allocate(40, kCPU);
  const auto make = [&](int64_t offset, const Shape& shape, DType dtype) {
    return
        [&storage, offset, shape, dtype] { Tensor::from_storage(storage, offset, shape, dtype); };
  };
  check_error(make(0, {11}, DType::Float32), {"from_storage: ", "[11]", "40 bytes (10 elements)"});
  check_error(make(5, {6}, DType::Float32), {"from_storage: ", "element 5", "10 elements"});
  check_error(make(-1, {1}, DType::Float32), {"from_storage: ", "element -1"});
  check_error(make(INT64_MAX, {1}, DType::Float32), {"from_storage: ", "9223372036854775807"});
  check_error(make(0, {6}, DType::Float64), {"from_storage: ", "Float64", "40 bytes (5 elements)"});
  check_error([] { Tensor::from_storage(Storage(), 0, {1}, DType::Float32); },
              {"from_storage: ", "undefined"});
  auto owner = std::make_shared<std::vector<double>>(4);
  char* const odd = reinterpret_cast<char*>(owner->data()) + 2;
  const Storage borrowed = Storage::borrow(odd, 16, kCPU, owner);
  check_error([&] { Tensor::from_storage(borrowed, 0, {2}, DType::Float32); },
              {"not aligned", "Float32"});
  CHECK(Tensor::from_storage(borrowed, 0, {2}, DType::Float16).numel() == 2);
}

TEST_CASE("borrowed memory lives as long as a tensor uses it") {
  auto owner = std::make_shared<std::vector<float>>(4, 1.5f);
  const std::weak_ptr<std::vector<float>> watched = owner;
  Tensor tensor;
  {
    float* const data = owner->data();
    tensor = Tensor::from_storage(Storage::borrow(data, 16, kCPU, std::move(owner)), 0, {4},
                                  DType::Float32);
  }
  const Tensor part = tensor.slice(3, 4);
  tensor = Tensor();
  REQUIRE(!watched.expired());
  CHECK(part.item() == 1.5);
}

TEST_CASE("slice: rows of dimension 0, sharing elements") {
  Tensor base = Tensor::from_values(iota(12), {4, 3});
  Tensor rows = base.slice(1, 3);
  CHECK(rows.shape() == Shape({2, 3}));
  CHECK(rows.to_vector<float>() == std::vector<float>{3, 4, 5, 6, 7, 8});
  CHECK(rows.slice(1, 2).to_vector<float>() == std::vector<float>{6, 7, 8});
  CHECK(base.slice(4, 4).numel() == 0);
  CHECK(zeros({0, 3}).slice(0, 0).shape() == Shape({0, 3}));
  rows.zero_();
  CHECK(base.to_vector<float>()[4] == 0.0f);
  check_error([&] { base.slice(2, 5); }, {"slice: rows [2, 5)", "[4, 3]"});
  check_error([&] { base.slice(3, 2); }, {"slice: rows [3, 2)"});
  check_error([&] { base.slice(-1, 2); }, {"slice: rows [-1, 2)"});
  check_error([] { zeros({}).slice(0, 1); }, {"slice", "[]", "no rows"});
}

TEST_CASE("to: itself when nothing changes, else a converted copy") {
  const Tensor a = Tensor::from_values(std::vector<float>{1.5f, -2.0f}, {2});
  CHECK(a.to(DType::Float32).is_same(a));
  CHECK(a.to(kCPU).is_same(a));
  for (const DType dtype : {DType::Float64, DType::Float16, DType::BFloat16}) {
    const Tensor b = a.to(dtype);
    CHECK(b.dtype() == dtype);
    CHECK(to_matrix(b) == to_matrix(a));
    CHECK(!(b.storage() == a.storage()));
  }
  CHECK(a.to(DType::Int64).to_vector<int64_t>() == std::vector<int64_t>{1, -2});
}

TEST_CASE("clone copies, detach shares; both are outside the graph") {
  Tensor a = ones({3}).requires_grad_();
  const Tensor b = a * 2.0;
  Tensor copy = b.clone();
  Tensor same = b.detach();
  CHECK(!copy.requires_grad());
  CHECK(!same.requires_grad());
  CHECK(same.raw_data() == b.raw_data());
  copy.fill_(9.0);
  CHECK(b.to_vector<float>() == std::vector<float>(3, 2.0f));
}

TEST_CASE("copy_ converts, checks the shape, and copies between views") {
  Tensor a = zeros({2, 2}, DType::Float16);
  a.copy_(Tensor::from_values(iota(4), {2, 2}));
  CHECK(to_matrix(a)(1, 1) == 3.0);
  check_error([&] { a.copy_(zeros({4})); }, {"copy_: source has shape [4]", "[2, 2]"});
  check_error([&] { a.copy_(cuda_tensor({2, 2}, DType::Float16)); }, {"copy_", "cuda:0"});
}

TEST_CASE("in-place changes bump the version that all views share") {
  Tensor a = zeros({4});
  Tensor view = a.slice(0, 2);
  const uint64_t before = a.storage().version();
  view.fill_(1.0);
  CHECK(a.storage().version() == before + 1);
  a.copy_(ones({4}));
  a.zero_();
  a.bump_version();
  CHECK(view.storage().version() == before + 4);
  CHECK(a.clone().storage().version() != before + 4);
}

TEST_CASE("in-place changes of a tensor in the graph need a NoGradGuard") {
  Tensor leaf = ones({2}).requires_grad_();
  check_error([&] { leaf.fill_(0.0); }, {"fill_", "[2]", "NoGradGuard"});
  check_error([&] { leaf.copy_(zeros({2})); }, {"copy_", "NoGradGuard"});
  Tensor result = leaf * 2.0;
  check_error([&] { result.zero_(); }, {"fill_", "NoGradGuard"});
  const NoGradGuard guard;
  leaf.fill_(3.0);
  CHECK(leaf.to_vector<float>() == std::vector<float>{3, 3});
}

TEST_CASE("item and to_vector: one element, the right type") {
  CHECK(full({1, 1}, 2.5, DType::Float16).item() == 2.5);
  CHECK(full({}, 7, DType::UInt8).item() == 7.0);
  check_error([] { zeros({2}).item(); }, {"item", "[2]", "expected one element"});
  check_error([] { zeros({0}).item(); }, {"item", "[0]"});
  check_error([] { zeros({2}).to_vector<double>(); }, {"data", "Float32", "Float64"});
  check_error([] { zeros({2}).data<int64_t>(); }, {"data", "Float32", "Int64"});
}

TEST_CASE("an undefined tensor says so") {
  const Tensor undefined;
  CHECK(!undefined.defined());
  check_error([&] { undefined.shape(); }, {"shape", "undefined"});
  check_error([&] { undefined.raw_data(); }, {"undefined"});
  check_error([&] { undefined.item(); }, {"undefined"});
  check_error([&] { undefined.requires_grad(); }, {"requires_grad", "undefined"});
  check_error([&] { Tensor().fill_(1.0); }, {"fill_", "undefined"});
}

TEST_CASE("set_data: new elements, dtype and all, under the old handle") {
  Tensor a = zeros({2, 2}).requires_grad_();
  const Tensor alias = a;
  ops::sum(a).backward();
  REQUIRE(a.grad().defined());
  a.set_data(ones({2, 2}, DType::Float64));
  CHECK(alias.dtype() == DType::Float64);
  CHECK(alias.to_vector<double>() == std::vector<double>(4, 1.0));
  CHECK(alias.requires_grad());
  CHECK(!alias.grad().defined());
  check_error([&] { a.set_data(ones({4})); }, {"set_data", "[4]", "[2, 2]"});
}

TEST_CASE("requires_grad_: leaves of floating dtypes only") {
  Tensor a = zeros({2});
  CHECK(a.requires_grad_().requires_grad());
  CHECK(!a.requires_grad_(false).requires_grad());
  check_error([] { zeros({2}, DType::Int64).requires_grad_(); }, {"requires_grad_", "Int64"});
  Tensor result = a.requires_grad_() * 2.0;
  check_error([&] { result.requires_grad_(); }, {"requires_grad_", "result of an operation"});
}

TEST_CASE("shapes: negative extents and too many dimensions are refused") {
  check_error([] { zeros({2, -1}); }, {"-1"});
  check_error([] { zeros({1, 1, 1, 1, 1, 1, 1}); }, {"7", "6"});
  check_error([] { Shape({int64_t{1} << 40, int64_t{1} << 40}); }, {"overflows"});
  check_error([] { zeros({int64_t{1} << 31, int64_t{1} << 31}); }, {"[2147483648, 2147483648]"});
  const Shape shape({2, 3});
  CHECK(shape.size(-1) == 3);
  CHECK(shape.size(-2) == 2);
  check_error([&] { shape.size(2); }, {"2", "[2, 3]"});
  CHECK(concat(shape) == "[2, 3]");
  CHECK(concat(Shape{}) == "[]");
}
