// A host device whose streams can say where their time goes: every operation is passed on to the
// host, between two readings of the clock. Matrix products are remembered, so that they can be
// measured again alone.
#pragma once

#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include <parallel/device/host/device.hpp>
#include <parallel/ops/host.hpp>

#include "clock.hpp"

namespace bench {

namespace host = parallel::host;
namespace ops = parallel::ops;

/// A matrix product without its data.
struct product {
  parallel::index m, n, k;
  parallel::dtype input, output;
  ops::matmul_options options;
};

class timed_stream : public host::stream {
 public:
  using host::stream::stream;

  /// What was measured since `start`.
  struct measurements {
    std::map<std::string_view, double> seconds;  // by operation
    std::vector<product> products;
  };

  void start(clock_kind kind) {
    kind_ = kind;
    measured_ = {};
    measuring_ = true;
  }
  /// Blocks until everything enqueued has run.
  [[nodiscard]] measurements stop() {
    measuring_ = false;
    synchronize();
    return std::move(measured_);
  }

  template <class Enqueue>
  void pass_on(std::string_view name, Enqueue const& enqueue_it) {
    host::stream& inner = *this;
    if (!measuring_) return enqueue_it(inner);
    inner.enqueue([this] { begin_ = now(kind_); });
    enqueue_it(inner);
    inner.enqueue([this, name] { measured_.seconds[name] += now(kind_) - begin_; });
  }

  void remember(product const& p) {
    if (measuring_) measured_.products.push_back(p);
  }

 private:
  bool measuring_ = false;
  clock_kind kind_ = clock_kind::wall;
  double begin_ = 0;  // of the operation that runs
  measurements measured_;
};

class timed_device : public host::device {
 public:
  using host::device::device;
  using stream_type = timed_stream;
};

/// Any operation: a better match than the host's own.
template <ops::operation_arguments Arguments>
void run_operation(timed_stream& s, Arguments const& a) {
  s.pass_on(Arguments::name, [&](host::stream& inner) { run_operation(inner, a); });
}
template <class C, class T>
void run_operation(timed_stream& s, ops::matmul_arguments<C, T> const& a) {
  s.remember({a.c.extent(0), a.c.extent(1), a.a.extent(a.options.transpose_a ? 0 : 1),
              parallel::dtype_of<T>, parallel::dtype_of<C>, a.options});
  s.pass_on(a.name, [&](host::stream& inner) { run_operation(inner, a); });
}

}  // namespace bench
