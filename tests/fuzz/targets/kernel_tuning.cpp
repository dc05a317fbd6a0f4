// The tables of kernels that a stream has chosen by timing, as a run saves them and ranks exchange
// them.
#include <parallel/ops/cuda/tuning.hpp>

#include "../support.hpp"
#include "../targets.hpp"

void fuzz::kernel_tuning(std::string_view input) {
  namespace pc = parallel::cuda;
  refused([&] {
    auto const tables = pc::kernel_tuning::parse(input, "tables");
    ensure(pc::kernel_tuning::parse(to_text(tables), "printed") == tables,
           "tables read back as they are printed");
    for (auto const& [shape, algorithm] : tables.products.entries()) {
      auto const product = pc::column_major(shape);
      ensure(product.result.rows == shape.n && product.result.columns == shape.m,
             "every shape is a column-major product");
    }
  });
}
