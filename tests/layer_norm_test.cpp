// layer_norm against its closed form in double, gradcheck, and the edges.
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "core/ops.h"
#include "tests/gradcheck.h"
#include "tests/reference_rows.h"

using namespace lockstep;
using namespace lockstep::test;

namespace {

constexpr double kEps = 1e-5;

Matrix times_row(const Matrix& matrix, const Matrix& row) {
  return (matrix.array().rowwise() * row.row(0).array()).matrix();
}

void check_shape(DType dtype, const Shape& shape, double offset) {
  CAPTURE(dtype_name(dtype));
  CAPTURE(shape.numel());
  CAPTURE(offset);
  const Shape columns{shape.size(-1)};
  Tensor input = random_tensor(shape, dtype, 1, offset - 2.0, offset + 2.0);
  Tensor weight = random_tensor(columns, dtype, 2, 0.5, 1.5);
  Tensor bias = random_tensor(columns, dtype, 3);
  const Tensor grad_output = random_tensor(shape, dtype, 4);
  const Matrix x = to_matrix(input);
  const Matrix w = to_matrix(weight);
  const Matrix b = to_matrix(bias);
  const Matrix g = to_matrix(grad_output);
  const auto expected = layer_norm_reference(x, w, b, g, kEps);
  for (Tensor* tensor : {&input, &weight, &bias}) tensor->requires_grad_();
  const Tensor output = ops::layer_norm(input, weight, bias, kEps);
  output.backward(grad_output);

  // An fp32 mean is off by eps |mean|, which the division by the deviation enlarges to `noise`.
  const Matrix noise = (x.cwiseAbs().array().colwise() * expected.rstd.col(0).array()).matrix() +
                       expected.normalised.cwiseAbs() +
                       (Matrix::Ones(x.rows(), x.cols()).array().colwise() *
                        (x.cwiseAbs().rowwise().mean().array() * expected.rstd.col(0).array()))
                           .matrix();
  check_close(output, expected.output, times_row(noise, w) + b.cwiseAbs().replicate(x.rows(), 1),
              4.0);
  const double rows = static_cast<double>(x.rows());
  check_close(bias.grad(), expected.grad_bias, g.cwiseAbs().colwise().sum(), rows);
  check_close(weight.grad(), expected.grad_weight,
              (g.cwiseAbs().array() * noise.array()).colwise().sum().matrix(), rows + 4.0);
  const Matrix gw = times_row(g, w).cwiseAbs();
  const Eigen::ArrayXd inner =
      gw.rowwise().mean().array() + (gw.array() * noise.array()).rowwise().mean();
  const Matrix bound = ((gw.array() + (noise.array() + 1.0).colwise() * inner).colwise() *
                        expected.rstd.col(0).array())
                           .matrix();
  check_close(input.grad(), expected.grad_input, bound, 6.0);
}

}  // namespace

TEST_CASE("layer_norm agrees with the closed form") {
  for (const DType dtype : kFloatingTypes) {
    for (const Shape& shape : {Shape{4}, Shape{1, 2}, Shape{3, 7}, Shape{5, 31}, Shape{4, 33},
                               Shape{2, 3, 64}, Shape{70, 65}, Shape{2, 1025}}) {
      check_shape(dtype, shape, 0.0);
    }
  }
}

TEST_CASE("layer_norm: a large offset costs only the digits that the input lost itself") {
  check_shape(DType::Float32, {4, 100}, 1000.0);
}

TEST_CASE("layer_norm: rows of equal values, and one column, give the bias") {
  const Tensor weight = full({3}, 2.0);
  const Tensor bias = full({3}, 0.25);
  const Tensor output = ops::layer_norm(full({2, 3}, 7.0), weight, bias);
  CHECK(output.to_vector<float>() == std::vector<float>(6, 0.25f));
  const Tensor single = ops::layer_norm(full({2, 1}, 7.0), full({1}, 2.0), full({1}, 0.5));
  CHECK(single.to_vector<float>() == std::vector<float>(2, 0.5f));
}

TEST_CASE("layer_norm: gradcheck of input, weight and bias, also when the gradient is added") {
  const auto inputs = [] {
    return std::vector<Tensor>{random_tensor({3, 4}, DType::Float64, 5, -2.0, 2.0),
                               random_tensor({4}, DType::Float64, 6, 0.5, 1.5),
                               random_tensor({4}, DType::Float64, 7)};
  };
  gradcheck([](const std::vector<Tensor>& in) { return ops::layer_norm(in[0], in[1], in[2], 0.1); },
            inputs());
  gradcheck(
      [](const std::vector<Tensor>& in) {
        return ops::add(ops::layer_norm(in[0], in[1], in[2], 0.1),
                        ops::layer_norm(ops::mul(in[0], 2.0), in[1], in[2], 0.1));
      },
      inputs());
}

TEST_CASE("layer_norm: empty batch and errors") {
  Tensor weight = ones({4});
  Tensor bias = zeros({4});
  weight.requires_grad_();
  bias.requires_grad_();
  const Tensor output = ops::layer_norm(empty({0, 4}), weight, bias);
  CHECK(output.shape() == Shape{0, 4});
  ops::sum(output).backward();
  CHECK(weight.grad().to_vector<float>() == std::vector<float>(4, 0.0f));
  CHECK(bias.grad().to_vector<float>() == std::vector<float>(4, 0.0f));

  check_error(
      [&] {
        ops::layer_norm(zeros({2, 3}), weight, bias);
      },
      {"layer_norm", "weight", "[4]", "[3]"});
  check_error(
      [&] {
        ops::layer_norm(zeros({2, 4}), weight, zeros({4}, DType::Float64));
      },
      {"bias", "Float64", "Float32"});
  check_error([&] { ops::layer_norm(zeros({2, 4}), Tensor(), bias); }, {"weight is undefined"});
  check_error([&] { ops::layer_norm(zeros({}), weight, bias); }, {"[...", "D >= 1"});
}
