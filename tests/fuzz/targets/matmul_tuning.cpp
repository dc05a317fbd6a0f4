// A table of tuned products, as a run keeps it and ranks exchange it.
#include <parallel/ops/cuda/matmul_tuning.hpp>

#include "../support.hpp"
#include "../targets.hpp"

void fuzz::matmul_tuning(std::string_view input) {
  namespace pc = parallel::cuda;
  refused([&] {
    auto const table = pc::parse_matmul_tuning(input, "table");
    ensure(pc::parse_matmul_tuning(pc::to_text(table), "printed") == table,
           "a table reads back as it is printed");
    for (auto const& [shape, algorithm] : table.entries()) {
      auto const product = pc::column_major(shape);
      ensure(product.result.rows == shape.n && product.result.columns == shape.m,
             "every shape is a column-major product");
    }
  });
}
