// fp8_products: the work of a pass whose products are computed in fp8.
#pragma once

#include <variant>

#include <parallel/cluster/operation_work.hpp>
#include <parallel/predict/pass_work.hpp>

namespace parallel::predict {

/// The work of a pass with its products in fp8: before each product a cast reads its first operand
/// and writes it in one byte. Casts of weights happen once for all microbatches of a step and are
/// left out. Attention and all other operations stay in the elements of the model.
[[nodiscard]] inline pass_work with_fp8_products(pass_work const& work) {
  pass_work out;
  for (auto const& item : work) {
    auto const* const operation = std::get_if<cluster::operation_work>(&item);
    if (!operation || operation->kind != cluster::operation_kind::product) {
      out.push_back(item);
      continue;
    }
    double const elements = operation->rows * operation->depth;
    out.emplace_back(cluster::operation_work{.name = "cast",
                                             .bytes = elements * (operation->element_bytes + 1)});
    auto product = *operation;
    product.element_bytes = 1;
    out.emplace_back(product);
  }
  return out;
}

}  // namespace parallel::predict
