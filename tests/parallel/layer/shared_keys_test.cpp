// Keys that several layers attend to: one layer stores them, and the gradients of all are summed.
#include <doctest/doctest.h>

#include <vector>

#include <parallel/layer/shared_keys.hpp>
#include <parallel/ops/reference.hpp>

namespace shared_keys_test {

using parallel::matrix_view;
using rows_view = parallel::ops::rows_view<double const>;
using shared_keys = parallel::shared_keys<double>;

struct memory {
  std::vector<std::byte> bytes = std::vector<std::byte>(1 << 12, std::byte{0xff});
  parallel::arena arena{parallel::buffer<std::byte>(nullptr, bytes.data(), bytes.size())};
  parallel::reference::stream stream;

  parallel::context<parallel::reference::stream> context(parallel::pass mode) {
    return {stream, arena, mode};
  }
};

TEST_CASE("shared keys: strided keys are copied and gradients summed without further memory") {
  memory buffers;
  auto c = buffers.context(parallel::pass::training);
  auto keys = shared_keys::allocate(c, 2, 3);
  std::vector<double> packed{9, 1, 2, 3, 9, 4, 5, 6};  // after one column of something else
  auto const columns = [&](double const* first_element) {
    return rows_view(matrix_view<double const>(first_element, {2, 4})).slice_columns(1, 4);
  };
  keys.store(c, columns(packed.data()));
  CHECK(std::vector<double>(keys.rows.span().begin(), keys.rows.span().end()) ==
        std::vector<double>{1, 2, 3, 4, 5, 6});
  auto const used_bytes = buffers.arena.mark();
  std::vector<double> const first{9, 10, 20, 30, 9, 40, 50, 60};
  std::vector<double> const second{9, 1, 1, 1, 9, 2, 2, 2};
  for (auto const& addend : {first, second, second}) keys.add_gradient(c, columns(addend.data()));
  CHECK(std::vector<double>(keys.gradient.span().begin(), keys.gradient.span().end()) ==
        std::vector<double>{12, 22, 32, 44, 54, 64});
  CHECK(buffers.arena.mark() == used_bytes);
}

TEST_CASE("shared keys: an inference pass allocates no gradients") {
  memory buffers;
  auto c = buffers.context(parallel::pass::inference);
  auto const keys = shared_keys::allocate(c, 2, 3);
  CHECK(keys.rows.size() == 6);
  CHECK(keys.gradient.size() == 0);
}

}  // namespace shared_keys_test
