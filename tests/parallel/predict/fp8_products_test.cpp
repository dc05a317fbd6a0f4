#include <doctest/doctest.h>

#include <parallel/predict/fp8_products.hpp>

namespace fp8_products_test {
namespace {

namespace cluster = parallel::cluster;
namespace predict = parallel::predict;

TEST_CASE("products in fp8: each follows a cast of its first operand, and all else stays") {
  cluster::operation_work const product{.name = "matmul",
                                        .kind = cluster::operation_kind::product,
                                        .flops = 2.0 * 8 * 4 * 16,
                                        .element_bytes = 2,
                                        .rows = 8,
                                        .columns = 4,
                                        .depth = 16};
  cluster::operation_work const attention{
      .name = "attention", .kind = cluster::operation_kind::attention_forward, .element_bytes = 2};
  auto const work = predict::with_fp8_products(
      {product, predict::axis_exchange{.axis = "tensor", .bytes = 5}, attention});
  REQUIRE(work.size() == 4);
  auto const cast = std::get<cluster::operation_work>(work[0]);
  CHECK(cast.kind == cluster::operation_kind::memory);
  CHECK(cast.bytes == 8 * 16 * 3);  // two bytes are read and one is written
  CHECK(std::get<cluster::operation_work>(work[1]).element_bytes == 1);
  CHECK(std::get<cluster::operation_work>(work[1]).flops == product.flops);
  CHECK(std::get<predict::axis_exchange>(work[2]).bytes == 5);
  CHECK(std::get<cluster::operation_work>(work[3]).element_bytes == 2);
}

}  // namespace
}  // namespace fp8_products_test
