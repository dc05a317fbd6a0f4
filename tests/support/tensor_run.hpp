// Two linear layers with a square between, over all rows on one rank or over tensor ranks that
// share rows and weights; exact modulo 2^64 over std::uint64_t.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <parallel/comm/threads/run.hpp>
#include <parallel/core/dtype.hpp>
#include <parallel/core/philox.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/layer/sequential.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/ops/meta.hpp>
#include <parallel/tensor/layers.hpp>
#include <parallel/tensor/linear.hpp>

namespace test {

namespace tensor = parallel::tensor;
using parallel::index;
using parallel::matrix_view;

/// y = x ∘ x, in place of an activation.
template <class T>
struct squared {
  using element = T;
  static constexpr bool elementwise = true;
  struct saved {
    matrix_view<T const> x;
  };
  template <class Stream>
  matrix_view<T> forward(parallel::context<Stream>& c, matrix_view<T const> x, saved& kept) const {
    kept.x = x;
    auto const y = c.template allocate<T, 2>(x.extents());
    parallel::ops::copy(c.stream, y.span(), x.span());
    parallel::ops::multiply(c.stream, y.span(), x.span());
    return y;
  }
  template <class Stream>
  matrix_view<T> backward_input(parallel::context<Stream>& c, matrix_view<T const> dy,
                                saved& kept) const {
    auto const dx = c.template allocate<T, 2>(dy.extents());
    parallel::ops::copy(c.stream, dx.span(), dy.span());
    parallel::ops::multiply(c.stream, dx.span(), kept.x.span());
    parallel::ops::add(c.stream, dx.span(), std::span<T const>(dx.span()));
    return dx;
  }
  template <class Stream>
  void backward_weight(parallel::context<Stream>&, saved const&) const {}
  void visit_parameters(auto&&) {}
};

/// The linear layers with the exchanges in them, or the exchanges around a layer of one rank.
template <class T, class Comm>
using linear_net =
    parallel::sequential<tensor::column_linear<T, Comm>, squared<T>, tensor::row_linear<T, Comm>>;
template <class T>
using one_rank_net = parallel::sequential<parallel::linear<T>, squared<T>, parallel::linear<T>>;
template <class T, class Comm>
using sliced_net = parallel::sequential<tensor::gather<T, Comm>, tensor::sliced<one_rank_net<T>>,
                                        tensor::reduce<T, Comm>>;

struct tensor_problem {
  index rows = 60;  // divisible by 1 to 5
  index width = 7;
  index hidden = 120;
  bool overlap = true;  // of linear_net's exchanges with its products
  index rank = 0;       // of the layers' adapters; 0: none
  float dropout = 0;    // theirs
};

/// y, dx and the gradients by name, of all ranks put together.
template <class T>
struct tensor_outcome {
  std::vector<T> y, dx, up, up_bias, down, down_bias;
  std::vector<T> up_a, up_b, down_a, down_b;        // of adapters
  std::map<int, std::vector<T>> bias_addends = {};  // of down_bias, by rank
  bool operator==(tensor_outcome const& other) const {
    auto const same = [](std::vector<T> const& a, std::vector<T> const& b) {
      return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
    };
    return same(y, other.y) && same(dx, other.dx) && same(up, other.up) &&
           same(up_bias, other.up_bias) && same(down, other.down) &&
           same(down_bias, other.down_bias) && same(up_a, other.up_a) && same(up_b, other.up_b) &&
           same(down_a, other.down_a) && same(down_b, other.down_b);
  }
};

template <class T>
[[nodiscard]] std::vector<T> random_numbers(index count, std::uint32_t which) {
  parallel::philox const random(11, which);
  std::vector<T> out(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < out.size(); ++i) {
    auto const bits = random.bits(i);
    if constexpr (std::is_same_v<T, std::uint64_t>)
      out[i] = bits * std::uint64_t{0x9e3779b97f4a7c15};
    else
      out[i] = static_cast<T>(static_cast<float>(bits % 2001U) / 1000.0F - 1.0F);
  }
  return out;
}

template <class T, class Comm>
void make_net(linear_net<T, Comm>& net, tensor::region<Comm> const& of, parallel::linear<T> up,
              parallel::linear<T> down, parallel::parameter<T, 1> bias) {
  net = linear_net<T, Comm>({of, std::move(up)}, {}, {of, std::move(down), std::move(bias)});
}
template <class T, class Comm>
void make_net(sliced_net<T, Comm>& net, tensor::region<Comm> const& of, parallel::linear<T> up,
              parallel::linear<T> down, parallel::parameter<T, 1> bias) {
  one_rank_net<T> inside({std::move(up)}, {}, {std::move(down)});
  net = sliced_net<T, Comm>({of}, tensor::sliced(std::move(inside)), {of, std::move(bias)});
}

/// A residual connection around either.
template <class T, class Comm, class Net>
void make_net(parallel::residual<Net>& net, tensor::region<Comm> const& of, parallel::linear<T> up,
              parallel::linear<T> down, parallel::parameter<T, 1> bias) {
  make_net<T, Comm>(net.inner, of, std::move(up), std::move(down), std::move(bias));
}

/// One rank's passes over its slices on `compute`; what it holds is added to `out`.
template <template <class, class> class Net, class T, class Comm, class Stream>
void run_tensor_rank(tensor::region<Comm> const& of, tensor_problem const& what, Stream& compute,
                     tensor_outcome<T>& out, std::mutex& lock) {
  int const rank = of.rank();
  int const ranks = of.size();
  index const rows = what.rows, width = what.width, hidden = what.hidden;
  index const part = hidden / ranks;
  auto const slice = [](std::vector<T> const& all, index begin, index end) {
    return std::vector<T>(all.begin() + begin, all.begin() + end);
  };
  auto const outside = of.divides_rows() ? rows / ranks : rows;
  index const first = of.divides_rows() ? rank * outside : 0;
  auto const x =
      slice(random_numbers<T>(rows * width, 1), first * width, (first + outside) * width);
  auto const dy =
      slice(random_numbers<T>(rows * width, 2), first * width, (first + outside) * width);
  auto up =
      slice(random_numbers<T>(hidden * width, 3), rank * part * width, (rank + 1) * part * width);
  auto up_bias = slice(random_numbers<T>(hidden, 4), rank * part, (rank + 1) * part);
  auto const whole_down = random_numbers<T>(width * hidden, 5);  // [width, hidden]
  std::vector<T> down;
  for (index r = 0; r < width; ++r)
    for (index i = 0; i < part; ++i)
      down.push_back(whole_down[static_cast<std::size_t>(r * hidden + rank * part + i)]);
  auto down_bias = random_numbers<T>(width, 6);
  using A = parallel::accumulate_t<T>;
  std::vector<A> g_up(up.size()), g_up_bias(up_bias.size()), g_down(down.size()),
      g_down_bias(down_bias.size());
  parallel::linear<T> up_layer{.weight = {"up", {part, width}}, .bias = {"up_bias", {part}}};
  parallel::linear<T> down_layer{.weight = {"down", {width, part}}, .bias = {}};
  parallel::parameter<T, 1> bias{"down_bias", {width}};
  auto const bind = [](auto& p, std::vector<T>& values, std::vector<A>& gradient) {
    p.data = values.data();
    p.gradient_data = gradient.data();
  };
  bind(up_layer.weight, up, g_up);
  bind(up_layer.bias, up_bias, g_up_bias);
  bind(down_layer.weight, down, g_down);
  bind(bias, down_bias, g_down_bias);
  index const depth = what.rank;
  auto up_a = random_numbers<T>(depth * width, 7), down_b = random_numbers<T>(width * depth, 10);
  auto up_b =
      slice(random_numbers<T>(hidden * depth, 8), rank * part * depth, (rank + 1) * part * depth);
  auto const whole_down_a = random_numbers<T>(depth * hidden, 9);
  std::vector<T> down_a;
  for (index i = 0; i < depth; ++i)
    for (index j = 0; j < part; ++j)
      down_a.push_back(whole_down_a[static_cast<std::size_t>(i * hidden + rank * part + j)]);
  std::vector<A> g_up_a(up_a.size()), g_up_b(up_b.size()), g_down_a(down_a.size()),
      g_down_b(down_b.size());
  if (depth > 0) {
    up_layer.adapter = {
        .a = {"up_a", {depth, width}}, .b = {"up_b", {part, depth}}, .scale = 3, .operation = 1};
    down_layer.adapter = {.a = {"down_a", {depth, hidden}},
                          .b = {"down_b", {width, depth}},
                          .scale = 5,
                          .operation = 2};
    if (ranks > 1) down_layer.adapter.a.keep_columns(rank * part, part);
    up_layer.adapter.dropout = down_layer.adapter.dropout = what.dropout;
    bind(up_layer.adapter.a, up_a, g_up_a);
    bind(up_layer.adapter.b, up_b, g_up_b);
    bind(down_layer.adapter.a, down_a, g_down_a);
    bind(down_layer.adapter.b, down_b, g_down_b);
  }
  Net<T, Comm> net;
  make_net<T, Comm>(net, of, up_layer, down_layer, bias);

  std::vector<std::byte> space(std::size_t{4} << 20, static_cast<std::byte>(0x51 + rank));
  parallel::arena memory({nullptr, space.data(), space.size()});
  parallel::context<Stream> c{.stream = compute, .memory = memory};
  c.share.first_row = first;
  typename Net<T, Comm>::saved kept;
  matrix_view<T const> const y =
      net.forward(c, matrix_view<T const>(x.data(), {outside, width}), kept);
  matrix_view<T const> const dx =
      net.backward_input(c, matrix_view<T const>(dy.data(), {outside, width}), kept);
  net.backward_weight(c, kept);
  compute.synchronize();

  std::scoped_lock const guard(lock);
  auto const keep = [&](std::vector<T>& to, T const* from, index count, index at, index all) {
    to.resize(static_cast<std::size_t>(all));
    std::copy_n(from, count, to.begin() + at);
  };
  keep(out.y, y.data(), y.size(), first * width, rows * width);
  keep(out.dx, dx.data(), dx.size(), first * width, rows * width);
  if constexpr (std::is_same_v<T, A>) {
    keep(out.up, g_up.data(), part * width, rank * part * width, hidden * width);
    keep(out.up_bias, g_up_bias.data(), part, rank * part, hidden);
    out.down.resize(static_cast<std::size_t>(width * hidden));
    for (index r = 0; r < width; ++r)
      std::copy_n(g_down.data() + r * part, part, out.down.begin() + r * hidden + rank * part);
    auto const add = [](std::vector<T>& to, std::vector<A> const& addend) {
      to.resize(addend.size());
      for (std::size_t i = 0; i < addend.size(); ++i) to[i] += addend[i];
    };
    add(out.up_a, g_up_a);
    add(out.down_b, g_down_b);
    keep(out.up_b, g_up_b.data(), part * depth, rank * part * depth, hidden * depth);
    out.down_a.resize(static_cast<std::size_t>(depth * hidden));
    for (index i = 0; i < depth; ++i)
      std::copy_n(g_down_a.data() + i * part, part, out.down_a.begin() + i * hidden + rank * part);
    // each rank saw other rows, or all of them
    if (of.divides_rows() || rank == 0) out.bias_addends[rank] = g_down_bias;
  }
}

/// All ranks as threads, on communicators that `decorate` makes of theirs.
template <template <class, class> class Net, class T, class Decorate>
[[nodiscard]] tensor_outcome<T> run_tensor(int ranks, bool sequence, tensor_problem const& what,
                                           Decorate const& decorate) {
  tensor_outcome<T> out;
  std::mutex lock;
  parallel::threads::run(ranks, [&](parallel::threads::communicator& own) {
    auto comm = decorate(std::move(own));
    using Comm = decltype(comm);
    parallel::host::stream compute, exchanges, back;
    tensor::region<Comm> of{{comm, exchanges, back}, sequence, what.overlap};
    run_tensor_rank<Net, T>(of, what, compute, out, lock);
  });
  out.down_bias.resize(static_cast<std::size_t>(what.width));
  for (auto const& [rank, addend] : out.bias_addends)
    for (std::size_t i = 0; i < addend.size(); ++i)
      out.down_bias[i] = static_cast<T>(out.down_bias[i] + addend[i]);
  return out;
}
template <template <class, class> class Net, class T>
[[nodiscard]] tensor_outcome<T> run_tensor(int ranks, bool sequence, tensor_problem const& what) {
  return run_tensor<Net, T>(ranks, sequence, what,
                            [](parallel::threads::communicator own) { return own; });
}

}  // namespace test
