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

// The operations of a training step. Each overload is a better match than the host's own.

template <class C, class T>
void matmul_impl(timed_stream& s, parallel::matrix_view<C> c, parallel::matrix_view<T const> a,
                 parallel::matrix_view<T const> b, ops::matmul_options options,
                 parallel::matrix_view<std::type_identity_t<C> const> addend) {
  s.remember({c.extent(0), c.extent(1), a.extent(options.transpose_a ? 0 : 1),
              parallel::dtype_of<T>, parallel::dtype_of<C>, options});
  s.pass_on("matmul", [&](host::stream& inner) { matmul_impl(inner, c, a, b, options, addend); });
}
template <class... A>
void attention_impl(timed_stream& s, A const&... a) {
  s.pass_on("attention", [&](host::stream& inner) { attention_impl(inner, a...); });
}
template <class... A>
void attention_backward_impl(timed_stream& s, A const&... a) {
  s.pass_on("attention_backward",
            [&](host::stream& inner) { attention_backward_impl(inner, a...); });
}
template <class... A>
void layer_norm_impl(timed_stream& s, A const&... a) {
  s.pass_on("layer_norm", [&](host::stream& inner) { layer_norm_impl(inner, a...); });
}
template <class... A>
void layer_norm_backward_input_impl(timed_stream& s, A const&... a) {
  s.pass_on("layer_norm_backward_input",
            [&](host::stream& inner) { layer_norm_backward_input_impl(inner, a...); });
}
template <class... A>
void layer_norm_backward_weight_impl(timed_stream& s, A const&... a) {
  s.pass_on("layer_norm_backward_weight",
            [&](host::stream& inner) { layer_norm_backward_weight_impl(inner, a...); });
}
template <class... A>
void add_bias_impl(timed_stream& s, A const&... a) {
  s.pass_on("add_bias", [&](host::stream& inner) { add_bias_impl(inner, a...); });
}
template <class... A>
void add_bias_backward_impl(timed_stream& s, A const&... a) {
  s.pass_on("add_bias_backward", [&](host::stream& inner) { add_bias_backward_impl(inner, a...); });
}
template <class... A>
void activation_impl(timed_stream& s, A const&... a) {
  s.pass_on("activation", [&](host::stream& inner) { activation_impl(inner, a...); });
}
template <class... A>
void activation_backward_impl(timed_stream& s, A const&... a) {
  s.pass_on("activation_backward",
            [&](host::stream& inner) { activation_backward_impl(inner, a...); });
}
template <class... A>
void cross_entropy_impl(timed_stream& s, A const&... a) {
  s.pass_on("cross_entropy", [&](host::stream& inner) { cross_entropy_impl(inner, a...); });
}
template <class... A>
void adamw_impl(timed_stream& s, A const&... a) {
  s.pass_on("adamw", [&](host::stream& inner) { adamw_impl(inner, a...); });
}
template <class... A>
void squared_norm_impl(timed_stream& s, A const&... a) {
  s.pass_on("squared_norm", [&](host::stream& inner) { squared_norm_impl(inner, a...); });
}
template <class... A>
void sum_impl(timed_stream& s, A const&... a) {
  s.pass_on("sum", [&](host::stream& inner) { sum_impl(inner, a...); });
}
template <class... A>
void fill_impl(timed_stream& s, A const&... a) {
  s.pass_on("fill", [&](host::stream& inner) { fill_impl(inner, a...); });
}
template <class... A>
void copy_impl(timed_stream& s, A const&... a) {
  s.pass_on("copy", [&](host::stream& inner) { copy_impl(inner, a...); });
}
template <class... A>
void add_impl(timed_stream& s, A const&... a) {
  s.pass_on("add", [&](host::stream& inner) { add_impl(inner, a...); });
}
template <class... A>
void dropout_impl(timed_stream& s, A const&... a) {
  s.pass_on("dropout", [&](host::stream& inner) { dropout_impl(inner, a...); });
}
template <class... A>
void embedding_impl(timed_stream& s, A const&... a) {
  s.pass_on("embedding", [&](host::stream& inner) { embedding_impl(inner, a...); });
}
template <class... A>
void embedding_backward_impl(timed_stream& s, A const&... a) {
  s.pass_on("embedding_backward",
            [&](host::stream& inner) { embedding_backward_impl(inner, a...); });
}
template <class... A>
void add_positions_impl(timed_stream& s, A const&... a) {
  s.pass_on("add_positions", [&](host::stream& inner) { add_positions_impl(inner, a...); });
}
template <class... A>
void add_positions_backward_impl(timed_stream& s, A const&... a) {
  s.pass_on("add_positions_backward",
            [&](host::stream& inner) { add_positions_backward_impl(inner, a...); });
}

}  // namespace bench
