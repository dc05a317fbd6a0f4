// A host device whose streams measure their time by operation: every operation is forwarded to the
// host between two readings of the clock. Matrix products are recorded, so that they can be
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

  /// The measurements since `start`.
  struct measurements {
    std::map<std::string_view, double> seconds;  // by operation
    std::vector<product> products;
  };

  void start(clock_kind kind) {
    kind_ = kind;
    measured_ = {};
    is_measuring_ = true;
  }
  /// Blocks until everything enqueued has run.
  [[nodiscard]] measurements stop() {
    is_measuring_ = false;
    synchronize();
    return std::move(measured_);
  }

  template <class Enqueue>
  void run_timed(std::string_view name, Enqueue const& enqueue) {
    host::stream& inner = *this;
    if (!is_measuring_) return enqueue(inner);
    inner.enqueue([this] { begin_ = read_clock(kind_); });
    enqueue(inner);
    inner.enqueue([this, name] { measured_.seconds[name] += read_clock(kind_) - begin_; });
  }

  void add_product(product const& p) {
    if (is_measuring_) measured_.products.push_back(p);
  }

 private:
  bool is_measuring_ = false;
  clock_kind kind_ = clock_kind::wall;
  double begin_ = 0;  // of the running operation
  measurements measured_;
};

class timed_device : public host::device {
 public:
  using host::device::device;
  using stream_type = timed_stream;
};

/// Matches any operation better than the host's own overloads.
template <ops::operation_arguments Arguments>
void run_operation(timed_stream& s, Arguments const& a) {
  s.run_timed(Arguments::name, [&](host::stream& inner) { run_operation(inner, a); });
}
template <class C, class T>
void run_operation(timed_stream& s, ops::matmul_arguments<C, T> const& a) {
  s.add_product({a.c.extent(0), a.c.extent(1), a.a.extent(a.options.transpose_a ? 0 : 1),
                 parallel::dtype_of<T>, parallel::dtype_of<C>, a.options});
  s.run_timed(a.name, [&](host::stream& inner) { run_operation(inner, a); });
}

}  // namespace bench
