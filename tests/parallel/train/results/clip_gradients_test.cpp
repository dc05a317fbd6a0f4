// Clipping of gradients: by value and by rows, wherever a row is; adaptive clipping against
// Composer's own numbers.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include <parallel/comm/faulty.hpp>
#include <parallel/comm/threads/run.hpp>
#include <parallel/data/share.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/train/stepper.hpp>
#include <support/given_gradients.hpp>
#include <support/golden/golden_tensor.hpp>

namespace clip_gradients_test {

using parallel::index;
using parallel::train::clipping;
using parallel::train::clipping_kind;
using test::given_tensor;
namespace zero = parallel::zero;

constexpr zero::level all_levels[] = {zero::level::none, zero::level::optimizer,
                                      zero::level::gradients, zero::level::parameters};

/// Weights of a tensor that a rank holds, from element `first` on.
template <class T>
struct held_weights {
  std::size_t tensor;
  index first;
  std::vector<T> values;
};

/// The results of one step on rank 0.
template <class T>
struct descent {
  std::vector<std::vector<T>> tensors;
  double loss = 0;
  double gradient_norm = 0;
  std::int64_t tokens = 0;
  std::vector<std::vector<held_weights<T>>> held = {};  // by rank, before they are put together
};

/// The slices of the tensors of `integers` on the two ranks of a tensor axis: the last row and the
/// other rows, the last column and the other columns, or all.
template <class T>
void slice(parallel::parameter_base<T>& p, int rank) {
  if (p.name == "d") {
    p.replication = {.ranks = 2};
    return;
  }
  p.whole_extents = p.extents;
  auto& part = p.extents[p.name == "c" ? 1 : 0];
  index const first = rank == 0 ? part - 1 : 0;
  index const count = rank == 0 ? 1 : part - 1;
  part = count;
  p.rows = {p.name == "c" ? parallel::row_range{0, p.extents[0]}
                          : parallel::row_range{first, count}};
  p.first_column = p.name == "c" ? first : 0;
}

/// Makes one step of plain descent on this rank over its share of microbatches of factors 1, 2, ...
/// `count`; microbatch i has i tokens. With `tensor` 2 ranks hold slices. `out.held` has an entry
/// for every rank.
template <class T, class Comm>
void descend_on(Comm& comm, std::vector<given_tensor<T>> const& tensors, zero::level level,
                clipping clip, int count, int tensor, zero::reduction_order order,
                descent<T>& out) {
  parallel::host::device device;
  parallel::host::stream compute, exchanges;
  parallel::arena memory(device.allocate<std::byte>(4096));
  using groups_type = parallel::train::process_groups<Comm>;
  groups_type groups(comm.split(0),
                     groups_type::data_layout(level, comm.size() / tensor)
                         .template with_degree<parallel::axis::tensor>(tensor),
                     level);
  test::given_gradients<T> model(tensors, [&](auto& p) {
    if (tensor == 2) slice(p, groups.tensor.rank());
  });
  parallel::train::stepper step(model, device, groups, test::plain_descent{},
                                {.level = level, .clip = clip, .order = order});
  model.set_weights(step);
  std::vector<test::given_microbatch<T>> batches;
  std::vector<index> first;
  auto const data = groups.place();
  auto const share_of = [&](index rank) {
    return order == zero::reduction_order::by_rank
               ? parallel::data::share_of(count, rank, data.data_ranks())
               : parallel::data::aligned_share_of(count, 1, rank, data.data_ranks());
  };
  auto const own_share = share_of(data.shard + data.replica);
  for (index i = own_share.begin; i < own_share.end; ++i) {
    // Ranks along the tensor axis have the same tokens, so only one counts them.
    batches.push_back({static_cast<T>(i + 1), data.tensor == 0 ? i + 1 : 0});
    first.push_back(i);
  }
  auto const max_batches = static_cast<std::size_t>(share_of(0).size());
  batches.resize(max_batches, {0, 0});
  first.resize(max_batches);
  auto const result = step.step(compute, exchanges, memory, {batches, first, {}, 1.0});
  model.for_each_held(step, [&](std::size_t i, index from, std::span<T> values) {
    out.held[static_cast<std::size_t>(comm.rank())].push_back(
        {i, from, {values.begin(), values.end()}});
  });
  if (comm.rank() != 0) return;
  out.loss = result.sums.loss;
  out.gradient_norm = result.gradient_norm;
  out.tokens = result.sums.tokens;
}

/// Makes such a step on `ranks` ranks with the communicators change(communicator); calls call(the
/// communicator of rank 0) at the end.
template <class T, class Change, class Call>
descent<T> descend(std::vector<given_tensor<T>> const& tensors, int ranks, zero::level level,
                   clipping clip, int count, int tensor, Change change, Call call,
                   zero::reduction_order order = zero::reduction_order::by_rank) {
  descent<T> out;
  out.held.resize(static_cast<std::size_t>(ranks));
  parallel::threads::run(ranks, [&](parallel::threads::communicator& inner) {
    auto comm = change(std::move(inner));
    descend_on(comm, tensors, level, clip, count, tensor, order, out);
    if (comm.rank() == 0) call(comm);
  });
  for (auto const& source : tensors) out.tensors.emplace_back(source.weights.size());
  for (std::size_t rank = out.held.size();
       rank-- > 0;)  // the first rank's values last, so that they win
    for (auto const& [i, first, values] : out.held[rank])
      std::ranges::copy(values, out.tensors[i].begin() + first);
  return out;
}

/// The results after such a step.
template <class T>
std::vector<std::vector<T>> descend(std::vector<given_tensor<T>> const& tensors, int ranks,
                                    zero::level level, clipping clip, int count, int tensor = 1) {
  return descend(
             tensors, ranks, level, clip, count, tensor, [](auto comm) { return comm; },
             [](auto const&) {})
      .tensors;
}

/// Tensors of small integers, so that every sum is exact in any order, with rows that shard
/// boundaries cut.
std::vector<given_tensor<float>> integers() {
  std::vector<given_tensor<float>> out{{"a", {7, 5}, {}, {}},
                                       {"b", {11}, {}, {}},
                                       {"c", {33, 3}, {}, {}},
                                       {"d", {2, 3, 50}, {}, {}}};
  parallel::philox const random(1, parallel::stream_id("integers"));
  std::uint64_t draw = 0;
  for (auto& tensor : out) {
    index size = 1;
    for (index const extent : tensor.extents) size *= extent;
    for (index i = 0; i < size; ++i) {
      tensor.weights.push_back(static_cast<float>(random.bits(draw++) % 9) - 4);
      tensor.gradient.push_back(static_cast<float>(random.bits(draw++) % 9) - 4);
    }
  }
  return out;
}

TEST_CASE(
    "clip gradients: every layout clips as one rank does bit for bit, also rows on several ranks") {
  auto const tensors = integers();
  for (auto const kind :
       {clipping_kind::norm, clipping_kind::value, clipping_kind::adaptive, clipping_kind::none}) {
    clipping const clip{kind, 0.75};
    auto const expected = descend(tensors, 1, zero::level::none, clip, 4);
    for (int const ranks : {1, 2, 3, 5, 7})
      for (auto const level : all_levels) {
        CAPTURE(ranks);
        CAPTURE(static_cast<int>(kind));
        CHECK(descend(tensors, ranks, level, clip, 4) == expected);
        if (ranks < 4) CHECK(descend(tensors, 2 * ranks, level, clip, 4, 2) == expected);
      }
  }
}

/// Real numbers in double, whose sums depend on their order, so that other orders change the
/// results.
std::vector<given_tensor<double>> reals() {
  std::vector<given_tensor<double>> out{
      {"narrow", {7, 5}, {}, {}}, {"vector", {96}, {}, {}},      {"matrix", {33, 64}, {}, {}},
      {"half", {5, 48}, {}, {}},  {"odd vector", {131}, {}, {}}, {"cube", {4, 3, 50}, {}, {}}};
  for (auto& tensor : out) {
    index size = 1;
    for (index const extent : tensor.extents) size *= extent;
    parallel::philox const random(3, parallel::stream_id(tensor.name));
    for (index i = 0; i < size; ++i) {
      auto const draw = static_cast<std::uint64_t>(2 * i);
      tensor.weights.push_back(1.1 * static_cast<double>(random.normal(draw)));
      tensor.gradient.push_back(1.1 * static_cast<double>(random.normal(draw + 1)));
    }
  }
  return out;
}

TEST_CASE(
    "clip gradients: in the canonical order every layout clips real numbers as one rank does") {
  auto const tensors = reals();
  auto const clipped = [&](clipping_kind kind, int ranks, zero::level level,
                           zero::reduction_order order) {
    auto const out = descend(
        tensors, ranks, level, {kind, 0.4}, 11, 1, [](auto comm) { return comm; },
        [](auto const&) {}, order);
    return std::tuple(out.tensors, out.loss, out.gradient_norm);
  };
  for (auto const kind :
       {clipping_kind::norm, clipping_kind::value, clipping_kind::adaptive, clipping_kind::none}) {
    CAPTURE(static_cast<int>(kind));
    using enum zero::reduction_order;
    auto const expected = clipped(kind, 1, zero::level::none, canonical_tree);
    bool by_rank_differs = false;
    for (int const ranks : {1, 2, 3, 5, 7, 13})
      for (auto const level : all_levels) {
        CAPTURE(ranks);
        CAPTURE(static_cast<int>(level));
        CHECK(clipped(kind, ranks, level, canonical_tree) == expected);
        by_rank_differs = by_rank_differs ||
                          clipped(kind, ranks, level, by_rank) != clipped(kind, 1, level, by_rank);
      }
    CHECK(by_rank_differs);
  }
}

TEST_CASE("clip gradients: rows in the canonical order equal plain sums, and may not be sliced") {
  auto const tensors = reals();
  clipping const clip{clipping_kind::adaptive, 0.4};
  auto const one = [&](zero::reduction_order order, int ranks, int tensor) {
    return descend(
               tensors, ranks, zero::level::none, clip, 4, tensor, [](auto comm) { return comm; },
               [](auto const&) {}, order)
        .tensors;
  };
  auto const plain = one(zero::reduction_order::by_rank, 1, 1);
  auto const canonical = one(zero::reduction_order::canonical_tree, 1, 1);
  for (std::size_t t = 0; t < plain.size(); ++t)
    for (std::size_t i = 0; i < plain[t].size(); ++i)
      CHECK(canonical[t][i] == doctest::Approx(plain[t][i]).epsilon(1e-5));
  CHECK_THROWS_WITH(
      static_cast<void>(one(zero::reduction_order::canonical_tree, 2, 2)),
      doctest::Contains("layout: tensor 2: adaptive clipping in the canonical order of reductions "
                        "needs whole rows of weights; set tensor to 1, or clip by norm or value"));
}

TEST_CASE("clip gradients: every dropped, doubled or divided collective of a clipped step shows") {
  auto const tensors = integers();
  clipping clip{.threshold = 0.75};
  auto const stepped = [&](zero::level level, parallel::fault const& fault_to_make,
                           std::uint64_t& calls) {
    return descend(
        tensors, 3, level, clip, 4, 1,
        [&](auto comm) { return parallel::faulty(std::move(comm), fault_to_make); },
        [&](auto const& broken) { calls = broken.calls(); });
  };
  // Equal up to rounding: a relative difference of at most 1e-6, 8 ulps.
  auto const are_equal = [](descent<float> const& a, descent<float> const& b) {
    auto const near = [](double x, double y) { return std::abs(x - y) <= 1e-6 * std::abs(y); };
    bool out =
        near(a.loss, b.loss) && near(a.gradient_norm, b.gradient_norm) && a.tokens == b.tokens;
    for (std::size_t t = 0; t < b.tensors.size(); ++t)
      for (std::size_t i = 0; i < b.tensors[t].size(); ++i)
        out = out && near(a.tensors[t][i], b.tensors[t][i]);
    return out;
  };
  for (auto const kind : {clipping_kind::norm, clipping_kind::value, clipping_kind::adaptive})
    for (auto const level : all_levels) {
      clip.kind = kind;
      std::uint64_t calls = 0;
      auto const sound = stepped(level, {}, calls);
      // At level 3 each of the two microbatches gathers values. Gradients are reduced once, from
      // level 2 on for each microbatch. One call sums the norm, loss and counts, another the
      // squares of rows. Levels 1 and 2 gather the new values.
      bool const by_row = kind == clipping_kind::adaptive;
      bool const gathers_first = level == zero::level::parameters;
      std::uint64_t const squares_of_rows =
          (gathers_first ? 2U : 0U) + (level >= zero::level::gradients ? 2U : 1U) + 1U;
      bool const gathers_last = level == zero::level::optimizer || level == zero::level::gradients;
      REQUIRE(calls == squares_of_rows + (by_row ? 1U : 0U) + (gathers_last ? 1U : 0U));
      for (std::uint64_t k = 0; k < calls; ++k)
        for (auto const fault_type : {parallel::fault_kind::drop, parallel::fault_kind::twice,
                                      parallel::fault_kind::divide}) {
          CAPTURE(static_cast<int>(kind));
          CAPTURE(static_cast<int>(level));
          CAPTURE(k);
          CAPTURE(static_cast<int>(fault_type));
          // Two kinds of mutants change nothing. A common factor of the squares of weights and of
          // gradients cancels in a row's factor, threshold |w| / |g|, and zeros stay 0. And this
          // model reads none of the values that are gathered for its passes.
          bool const equivalent =
              (by_row && k == squares_of_rows && fault_type != parallel::fault_kind::drop) ||
              (gathers_first && (k == 0 || k == 2));
          std::uint64_t ignored = 0;
          CHECK(are_equal(stepped(level, {.call = k, .kind = fault_type}, ignored), sound) ==
                equivalent);
        }
    }
}

TEST_CASE(
    "clip gradients: norm clipping scales the mean gradient only where its norm exceeds the "
    "threshold") {
  auto const tensors = integers();
  double squares = 0;
  for (auto const& tensor : tensors)
    for (float const g : tensor.gradient) squares += double(g) * g;
  // Microbatches have factors 1, 2, 3 and as many tokens: the mean gradient is the given one, and
  // the sum is six times that. A threshold between their norms shows which of them is clipped.
  double const norm = std::sqrt(squares);
  for (double const threshold : {0.5 * norm, 3 * norm}) {
    CAPTURE(threshold);
    double const factor = std::min(1.0, threshold / (norm + 1e-6));
    for (int const ranks : {1, 3})
      for (auto const level : all_levels) {
        auto const values = descend(tensors, ranks, level, {clipping_kind::norm, threshold}, 3);
        for (std::size_t t = 0; t < tensors.size(); ++t)
          for (std::size_t i = 0; i < values[t].size(); ++i)
            CHECK(values[t][i] ==
                  doctest::Approx(tensors[t].weights[i] - factor * tensors[t].gradient[i])
                      .epsilon(1e-6));
      }
  }
}

TEST_CASE(
    "clip gradients: value clipping acts on elements of the mean gradient, adaptive on its rows") {
  auto const tensors = integers();
  int clipped = 0;
  // With one microbatch of factor 1 and one token, the mean gradient is the given one.
  auto const value = descend(tensors, 2, zero::level::optimizer, {clipping_kind::value, 2.5}, 1);
  auto const rows = descend(tensors, 2, zero::level::optimizer, {clipping_kind::adaptive, 0.75}, 1);
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    auto const& [name, extents, weights, gradient] = tensors[t];
    std::size_t const width = extents.size() == 1
                                  ? weights.size()
                                  : weights.size() / static_cast<std::size_t>(extents[0]);
    for (std::size_t begin = 0; begin < weights.size(); begin += width) {
      double w = 0, g = 0;
      for (std::size_t i = begin; i < begin + width; ++i) {
        w += double(weights[i]) * weights[i];
        g += double(gradient[i]) * gradient[i];
      }
      double const factor = g == 0 ? 1.0 : std::min(1.0, 0.75 * std::sqrt(w) / std::sqrt(g));
      clipped += factor < 1.0 ? 1 : 0;
      for (std::size_t i = begin; i < begin + width; ++i) {
        CHECK(value[t][i] == weights[i] - std::min(2.5F, std::max(-2.5F, gradient[i])));
        CHECK(rows[t][i] == doctest::Approx(weights[i] - factor * gradient[i]).epsilon(1e-6));
      }
    }
  }
  CHECK(clipped > 10);
}

TEST_CASE("clip gradients: value clipping of doubles uses the exact threshold, not a float") {
  double const threshold = 0.3;
  std::vector<given_tensor<double>> const tensors{{"a", {2, 3}, std::vector(6, 0.0), {}}};
  auto changed = tensors;
  changed[0].gradient = {-4.0, -threshold, 0.25, threshold, std::nextafter(threshold, 1.0), 3.0};
  for (int const ranks : {1, 2})
    for (auto const level : all_levels)
      CHECK(descend(changed, ranks, level, {clipping_kind::value, threshold}, 1)[0] ==
            std::vector{threshold, threshold, -0.25, -threshold, -threshold, -threshold});
}

TEST_CASE("clip gradients: adaptive clipping equals Composer's") {
  parallel::checkpoint::safetensors_file const file(test::golden_folder() /
                                                    "adaptive_clipping.safetensors");
  auto const read = [&](std::string const& name) {
    return test::golden_tensor<double>(file, name);
  };
  std::vector<given_tensor<double>> tensors;
  for (std::string const name : {"matrix", "vector", "cube"}) {
    auto const& extents = file.at(name + "/weight").extents;
    tensors.push_back(
        {name, {extents.begin(), extents.end()}, read(name + "/weight"), read(name + "/gradient")});
  }
  for (int const ranks : {1, 3})
    for (auto const level : all_levels) {
      auto const values = descend(tensors, ranks, level, {clipping_kind::adaptive, 0.5}, 1);
      for (std::size_t t = 0; t < tensors.size(); ++t) {
        auto const clipped = read(tensors[t].name + "/clipped");
        REQUIRE(clipped.size() == values[t].size());
        for (std::size_t i = 0; i < clipped.size(); ++i)
          CHECK(std::abs(tensors[t].weights[i] - clipped[i] - values[t][i]) <=
                1e-15 * std::max(1.0, std::abs(tensors[t].gradient[i])));
      }
    }
}

}  // namespace clip_gradients_test
