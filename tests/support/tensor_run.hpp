// Two linear layers with a square between them, on one rank or on tensor ranks that divide rows and
// weights; exact modulo 2^64 over std::uint64_t.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
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

/// y = x ∘ x, which replaces an activation.
template <class T>
struct squared {
  using element = T;
  static constexpr bool elementwise = true;
  struct saved {
    matrix_view<T const> x;
  };
  template <class Stream>
  matrix_view<T> forward(parallel::context<Stream>& c, matrix_view<T const> x, saved& state) const {
    state.x = x;
    auto const y = c.template allocate<T, 2>(x.extents());
    parallel::ops::copy(c.stream, y.span(), x.span());
    parallel::ops::multiply(c.stream, y.span(), x.span());
    return y;
  }
  template <class Stream>
  matrix_view<T> backward_input(parallel::context<Stream>& c, matrix_view<T const> dy,
                                saved& state) const {
    auto const dx = c.template allocate<T, 2>(dy.extents());
    parallel::ops::copy(c.stream, dx.span(), dy.span());
    parallel::ops::multiply(c.stream, dx.span(), state.x.span());
    parallel::ops::add(c.stream, dx.span(), std::span<T const>(dx.span()));
    return dx;
  }
  template <class Stream>
  void backward_weight(parallel::context<Stream>&, saved const&) const {}
  void visit_parameters(auto&&) {}
};

/// The net with exchanges inside its linear layers; `sliced_net` has the exchanges around the net
/// of one rank.
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
  float dropout = 0;    // of the adapters
};

/// y, dx and the gradients by name, assembled from all ranks.
template <class T>
struct tensor_outcome {
  std::vector<T> y, dx, up, up_bias, down, down_bias;
  std::vector<T> up_a, up_b, down_a, down_b;        // of adapters
  std::map<int, std::vector<T>> bias_addends = {};  // of down_bias, by rank
  bool operator==(tensor_outcome const& other) const {
    auto const are_equal = [](std::vector<T> const& a, std::vector<T> const& b) {
      return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
    };
    return are_equal(y, other.y) && are_equal(dx, other.dx) && are_equal(up, other.up) &&
           are_equal(up_bias, other.up_bias) && are_equal(down, other.down) &&
           are_equal(down_bias, other.down_bias) && are_equal(up_a, other.up_a) &&
           are_equal(up_b, other.up_b) && are_equal(down_a, other.down_a) &&
           are_equal(down_b, other.down_b);
  }
};

template <class T>
[[nodiscard]] std::vector<T> random_numbers(index count, std::uint32_t stream_number) {
  parallel::philox const random(11, stream_number);
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
void make_net(linear_net<T, Comm>& net, tensor::region<Comm> const& region, parallel::linear<T> up,
              parallel::linear<T> down, parallel::parameter<T, 1> bias) {
  net =
      linear_net<T, Comm>({region, std::move(up)}, {}, {region, std::move(down), std::move(bias)});
}
template <class T, class Comm>
void make_net(sliced_net<T, Comm>& net, tensor::region<Comm> const& region, parallel::linear<T> up,
              parallel::linear<T> down, parallel::parameter<T, 1> bias) {
  one_rank_net<T> inner_net({std::move(up)}, {}, {std::move(down)});
  net = sliced_net<T, Comm>({region}, tensor::sliced(std::move(inner_net)),
                            {region, std::move(bias)});
}

/// A residual connection around either net.
template <class T, class Comm, class Net>
void make_net(parallel::residual<Net>& net, tensor::region<Comm> const& region,
              parallel::linear<T> up, parallel::linear<T> down, parallel::parameter<T, 1> bias) {
  make_net<T, Comm>(net.inner, region, std::move(up), std::move(down), std::move(bias));
}

/// Runs one rank's passes over its slices on `compute`, and adds its results to `out`.
template <template <class, class> class Net, class T, class Comm, class Stream>
void run_tensor_rank(tensor::region<Comm> const& region, tensor_problem const& problem,
                     Stream& compute, tensor_outcome<T>& out, std::mutex& lock) {
  int const rank = region.rank();
  int const ranks = region.size();
  index const rows = problem.rows, width = problem.width, hidden = problem.hidden;
  index const part_size = hidden / ranks;
  auto const slice = [](std::vector<T> const& values, index begin, index end) {
    return std::vector<T>(values.begin() + begin, values.begin() + end);
  };
  auto const own_row_count = region.divides_rows() ? rows / ranks : rows;
  index const first_row = region.divides_rows() ? rank * own_row_count : 0;
  auto const x = slice(random_numbers<T>(rows * width, 1), first_row * width,
                       (first_row + own_row_count) * width);
  auto const dy = slice(random_numbers<T>(rows * width, 2), first_row * width,
                        (first_row + own_row_count) * width);
  auto up = slice(random_numbers<T>(hidden * width, 3), rank * part_size * width,
                  (rank + 1) * part_size * width);
  auto up_bias = slice(random_numbers<T>(hidden, 4), rank * part_size, (rank + 1) * part_size);
  auto const full_down = random_numbers<T>(width * hidden, 5);  // [width, hidden]
  std::vector<T> down;
  for (index r = 0; r < width; ++r)
    for (index i = 0; i < part_size; ++i)
      down.push_back(full_down[static_cast<std::size_t>(r * hidden + rank * part_size + i)]);
  auto down_bias = random_numbers<T>(width, 6);
  using A = parallel::accumulate_t<T>;
  std::vector<A> g_up(up.size()), g_up_bias(up_bias.size()), g_down(down.size()),
      g_down_bias(down_bias.size());
  parallel::linear<T> up_layer{.weight = {"up", {part_size, width}},
                               .bias = {"up_bias", {part_size}}};
  parallel::linear<T> down_layer{.weight = {"down", {width, part_size}}, .bias = {}};
  parallel::parameter<T, 1> bias{"down_bias", {width}};
  auto const bind = [](auto& p, std::vector<T>& values, std::vector<A>& gradient) {
    p.data = values.data();
    p.gradient_data = gradient.data();
  };
  bind(up_layer.weight, up, g_up);
  bind(up_layer.bias, up_bias, g_up_bias);
  bind(down_layer.weight, down, g_down);
  bind(bias, down_bias, g_down_bias);
  index const depth = problem.rank;
  auto up_a = random_numbers<T>(depth * width, 7), down_b = random_numbers<T>(width * depth, 10);
  auto up_b = slice(random_numbers<T>(hidden * depth, 8), rank * part_size * depth,
                    (rank + 1) * part_size * depth);
  auto const full_down_a = random_numbers<T>(depth * hidden, 9);
  std::vector<T> down_a;
  for (index i = 0; i < depth; ++i)
    for (index j = 0; j < part_size; ++j)
      down_a.push_back(full_down_a[static_cast<std::size_t>(i * hidden + rank * part_size + j)]);
  std::vector<A> g_up_a(up_a.size()), g_up_b(up_b.size()), g_down_a(down_a.size()),
      g_down_b(down_b.size());
  if (depth > 0) {
    up_layer.adapter = {.a = {"up_a", {depth, width}},
                        .b = {"up_b", {part_size, depth}},
                        .scale = 3,
                        .operation = 1};
    down_layer.adapter = {.a = {"down_a", {depth, hidden}},
                          .b = {"down_b", {width, depth}},
                          .scale = 5,
                          .operation = 2};
    if (ranks > 1) down_layer.adapter.a.keep_columns(rank * part_size, part_size);
    up_layer.adapter.dropout = down_layer.adapter.dropout = problem.dropout;
    bind(up_layer.adapter.a, up_a, g_up_a);
    bind(up_layer.adapter.b, up_b, g_up_b);
    bind(down_layer.adapter.a, down_a, g_down_a);
    bind(down_layer.adapter.b, down_b, g_down_b);
  }
  Net<T, Comm> net;
  make_net<T, Comm>(net, region, up_layer, down_layer, bias);

  std::vector<std::byte> storage(std::size_t{4} << 20, static_cast<std::byte>(0x51 + rank));
  parallel::arena memory({nullptr, storage.data(), storage.size()});
  parallel::context<Stream> c{.stream = compute, .memory = memory};
  c.share.first_row = first_row;
  typename Net<T, Comm>::saved state;
  matrix_view<T const> const y =
      net.forward(c, matrix_view<T const>(x.data(), {own_row_count, width}), state);
  matrix_view<T const> const dx =
      net.backward_input(c, matrix_view<T const>(dy.data(), {own_row_count, width}), state);
  net.backward_weight(c, state);
  compute.synchronize();

  std::scoped_lock const guard(lock);
  auto const store_part = [&](std::vector<T>& target, T const* source, index count, index offset,
                              index total) {
    target.resize(static_cast<std::size_t>(total));
    std::copy_n(source, count, target.begin() + offset);
  };
  store_part(out.y, y.data(), y.size(), first_row * width, rows * width);
  store_part(out.dx, dx.data(), dx.size(), first_row * width, rows * width);
  if constexpr (std::is_same_v<T, A>) {
    store_part(out.up, g_up.data(), part_size * width, rank * part_size * width, hidden * width);
    store_part(out.up_bias, g_up_bias.data(), part_size, rank * part_size, hidden);
    out.down.resize(static_cast<std::size_t>(width * hidden));
    for (index r = 0; r < width; ++r)
      std::copy_n(g_down.data() + r * part_size, part_size,
                  out.down.begin() + r * hidden + rank * part_size);
    auto const add = [](std::vector<T>& target, std::vector<A> const& addend) {
      target.resize(addend.size());
      for (std::size_t i = 0; i < addend.size(); ++i) target[i] += addend[i];
    };
    add(out.up_a, g_up_a);
    add(out.down_b, g_down_b);
    store_part(out.up_b, g_up_b.data(), part_size * depth, rank * part_size * depth,
               hidden * depth);
    out.down_a.resize(static_cast<std::size_t>(depth * hidden));
    for (index i = 0; i < depth; ++i)
      std::copy_n(g_down_a.data() + i * part_size, part_size,
                  out.down_a.begin() + i * hidden + rank * part_size);
    // ranks have different rows, or each has all of them
    if (region.divides_rows() || rank == 0) out.bias_addends[rank] = g_down_bias;
  }
}

/// Runs all ranks as threads, on communicators that `decorate` makes from those of threads.
template <template <class, class> class Net, class T, class Decorate>
[[nodiscard]] tensor_outcome<T> run_tensor(int ranks, bool sequence, tensor_problem const& problem,
                                           Decorate const& decorate) {
  tensor_outcome<T> out;
  std::mutex lock;
  parallel::threads::run(ranks, [&](parallel::threads::communicator& communicator) {
    auto comm = decorate(std::move(communicator));
    using Comm = decltype(comm);
    parallel::host::stream compute, exchanges, return_exchanges;
    tensor::region<Comm> region{{comm, exchanges, return_exchanges}, sequence, problem.overlap};
    run_tensor_rank<Net, T>(region, problem, compute, out, lock);
  });
  out.down_bias.resize(static_cast<std::size_t>(problem.width));
  for (auto const& [rank, addend] : out.bias_addends)
    for (std::size_t i = 0; i < addend.size(); ++i)
      out.down_bias[i] = static_cast<T>(out.down_bias[i] + addend[i]);
  return out;
}
template <template <class, class> class Net, class T>
[[nodiscard]] tensor_outcome<T> run_tensor(int ranks, bool sequence,
                                           tensor_problem const& problem) {
  return run_tensor<Net, T>(
      ranks, sequence, problem,
      [](parallel::threads::communicator communicator) { return communicator; });
}

}  // namespace test
