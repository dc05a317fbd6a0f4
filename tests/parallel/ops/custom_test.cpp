// ops::custom runs on streams that can run host code, and is noted on the meta device.
#include <doctest/doctest.h>

#include <vector>

#include <parallel/core/tensor.hpp>
#include <parallel/device/host/stream.hpp>
#include <parallel/device/meta/device.hpp>
#include <parallel/ops/custom.hpp>
#include <parallel/ops/reference.hpp>

namespace custom_test {

using view = parallel::vector_view<float>;
using constant = parallel::vector_view<float const>;

template <class Stream>
void add_twice(Stream& s, view y, constant x) {
  parallel::ops::custom(
      s,
      [](view sums, constant addends, float factor) {
        for (parallel::index i = 0; i < sums.size(); ++i) sums(i) += factor * addends(i);
      },
      parallel::ops::updates(y), x, 2.0F);
}

struct noted final : parallel::meta::access_observer {
  std::vector<parallel::meta::memory_access> views;
  void operation(parallel::meta::observed_operation const& seen) override {
    views.assign(seen.arguments.begin(), seen.arguments.end());
  }
  void exchange(std::string_view, parallel::meta::exchange_kind, parallel::meta::memory_access,
                parallel::meta::memory_access) override {}
};

TEST_CASE("ops::custom: the task runs on host streams, and the meta device notes its views") {
  std::vector<float> y{1, 2, 3};
  std::vector<float> const x{10, 20, 30};
  view const to{y.data(), {3}};
  constant const from{x.data(), {3}};

  parallel::reference::stream at_once;
  add_twice(at_once, to, from);
  CHECK(y == std::vector<float>{21, 42, 63});
  parallel::host::stream host_stream;
  add_twice(host_stream, to, from);
  host_stream.synchronize();
  CHECK(y == std::vector<float>{41, 82, 123});

  parallel::meta::stream nowhere;
  add_twice(nowhere, to, from);  // no observer yet
  noted touched_views;
  nowhere.set_observer(&touched_views);
  add_twice(nowhere, to, from);
  CHECK(y == std::vector<float>{41, 82, 123});
  REQUIRE(touched_views.views.size() == 2);
  CHECK((touched_views.views[0].reads && touched_views.views[0].writes));
  CHECK((touched_views.views[1].reads && !touched_views.views[1].writes));
  CHECK(touched_views.views[0].begin == reinterpret_cast<std::uintptr_t>(y.data()));
  CHECK(touched_views.views[1].end - touched_views.views[1].begin == 3 * sizeof(float));
  CHECK(touched_views.views[1].elements == 3);
}

}  // namespace custom_test
